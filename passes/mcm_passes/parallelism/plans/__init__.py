"""Whole plans by Auto-MAP: search, annotation, application."""
