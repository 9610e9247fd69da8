"""Two output folders compared: what moved, what got slower, and why."""
