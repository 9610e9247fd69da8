"""Placing models on machines of any family: devices, channels and routes are all that is known."""
