"""Findings of a compile, and what it has not proven."""
