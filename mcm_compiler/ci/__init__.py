"""Continuous integration: many models in one command, and comparison with an earlier build."""
