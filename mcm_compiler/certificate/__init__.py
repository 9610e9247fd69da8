"""Certificates: what was placed, where, and what is claimed of it, as data that anyone re-proves."""
