"""Two output folders held against each other: what moved, what got slower, and why."""
