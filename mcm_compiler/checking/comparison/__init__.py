"""Outputs of two models compared on the same inputs, and what such a comparison saw."""
