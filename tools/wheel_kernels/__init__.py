"""Wheels that bring their kernels compiled: filling, harvesting, repacking."""
