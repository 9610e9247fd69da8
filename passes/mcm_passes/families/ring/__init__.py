"""Placing models on rings: the analytic model, its searches, bounds and checks."""
