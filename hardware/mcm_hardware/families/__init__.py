"""Families of targets, one folder each."""
