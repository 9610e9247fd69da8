"""Placement problems, pins and assignments on a ring."""
