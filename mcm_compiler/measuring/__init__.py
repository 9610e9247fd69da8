"""Measuring the kernels of compiled folders on devices."""
