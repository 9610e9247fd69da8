"""Compiled kernels of an installation: those that come with it, and where numba keeps others."""
