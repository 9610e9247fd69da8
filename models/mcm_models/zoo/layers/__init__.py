"""Layers and helpers that the networks of the zoo share."""
