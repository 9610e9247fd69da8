"""Bounds on a step's time over all placements, and what cannot fit."""
