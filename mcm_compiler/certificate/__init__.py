"""Certificates: what was placed, where, and what is claimed of it, as data to re-prove."""
