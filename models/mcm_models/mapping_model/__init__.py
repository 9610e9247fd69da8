"""Measured mappings on disk, the make that they hold for, and figures of models on them."""
