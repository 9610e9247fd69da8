"""Independent checks of what the exact methods prove."""
