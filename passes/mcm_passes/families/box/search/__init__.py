"""Search for placements: what is simulated, where it starts, and how it moves."""
