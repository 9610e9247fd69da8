"""Splitting operators over chips."""
