"""Lower bounds of the period, and what cannot be placed at all."""
