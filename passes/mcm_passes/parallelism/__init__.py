"""Operators divided over devices: rules, decisions, pipelines and whole plans."""
