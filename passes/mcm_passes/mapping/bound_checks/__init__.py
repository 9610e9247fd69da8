"""Independent checks of the bounds in a certificate."""
