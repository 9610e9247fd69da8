"""Stages of a pipeline copied unequally: rounds of several inferences."""
