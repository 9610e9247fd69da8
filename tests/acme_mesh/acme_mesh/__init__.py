"""Packages whose chips form a two-dimensional mesh, for mcm-compiler."""
