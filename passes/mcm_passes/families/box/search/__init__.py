"""Search for placements: what is judged, where it starts, and how it moves."""
