"""Codes MCM-M###: fabrics, one subject a file."""
