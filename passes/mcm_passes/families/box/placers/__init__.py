"""Placers without learning, each found by name through the entry points."""
