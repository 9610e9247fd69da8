"""Packages whose chips form a one-way ring."""
