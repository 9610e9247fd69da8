"""Placing single operators on devices: chains, groups, loads, training."""
