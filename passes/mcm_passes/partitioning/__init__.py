"""Partitioning: the problem, the fast model, strategies, bounds, and legalisation."""
