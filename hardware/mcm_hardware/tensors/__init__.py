"""Shapes and stored widths of values."""
