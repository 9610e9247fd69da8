"""Demands of a placement on resources: one table, and compiled forms of it."""
