"""Measured mappings of random blocks, the fit of the ridge, and the recorded choice of models."""
