"""Shapes and types of values: inference, symbolic dimensions, contradictions."""
