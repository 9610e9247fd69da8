"""Placing the ops of a step in a box of CPUs and GPUs."""
