"""Families of targets, one room a family."""
