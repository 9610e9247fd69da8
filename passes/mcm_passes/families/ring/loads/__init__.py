"""Loads of tensors along their way on a ring."""
