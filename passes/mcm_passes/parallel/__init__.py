"""Putting a whole package to work: pipelines side by side."""
