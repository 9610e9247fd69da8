"""Advice of a report: moves of ops that help, pins in their way, limits of pipelines."""
