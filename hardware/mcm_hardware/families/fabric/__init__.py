"""Fabrics: chips that are grids of compute and memory units around switches."""
