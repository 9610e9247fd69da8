"""Placement problems from files, and assignments from users."""
