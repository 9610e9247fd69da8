"""Fabrics: place and route of one chip, formulas that guess periods, and mappers that search."""
