"""Boxes of CPUs and GPUs: description, devices, costs of ops, and the simulator of steps."""
