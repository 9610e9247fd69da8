"""Pipelines of stages over devices: what is decided as arrays, and the length of an iteration."""
