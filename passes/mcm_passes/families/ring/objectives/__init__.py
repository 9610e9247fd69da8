"""Objectives other than the period: when one inference is answered, and searches for it."""
