"""Operators whose activations exceed a chip, divided along rows."""
