"""Copies of the whole pipeline side by side."""
