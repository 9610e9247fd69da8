"""Dimensions that divide together: factors, linkage groups, partial values."""
