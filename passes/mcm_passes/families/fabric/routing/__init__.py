"""Streams through the mesh: trees, loads of links and memory channels, and what moves change."""
