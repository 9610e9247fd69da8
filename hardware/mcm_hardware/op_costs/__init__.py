"""Demands of ops on a chip's engines, by family; formulas see shapes and attributes only."""
