"""Basis of every search: candidates, budgets, strategies by name."""
