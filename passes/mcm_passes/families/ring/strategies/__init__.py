"""Partition strategies for rings, one a file."""
