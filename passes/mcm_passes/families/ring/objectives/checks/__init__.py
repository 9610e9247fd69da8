"""Bounds on latencies shown once more, by code that shares nothing with the search."""
