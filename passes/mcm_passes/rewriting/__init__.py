"""Graphs made simpler: simplification and fusion."""
