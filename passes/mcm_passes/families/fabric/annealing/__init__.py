"""Mappers: annealing and random mappings."""
