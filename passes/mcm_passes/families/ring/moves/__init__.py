"""Moves of single units with loads kept up to date."""
