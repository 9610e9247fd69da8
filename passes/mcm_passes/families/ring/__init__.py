"""Placing models on rings: the fast model, its searches, bounds and checks."""
