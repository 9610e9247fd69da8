"""Workloads with seeded random weights, one builder a file; found by entry points, not imports."""
