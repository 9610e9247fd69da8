"""Machines: devices, channels that they share, and routes between them."""
