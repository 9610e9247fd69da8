"""One chip: its numbers, and the time of a kernel on it."""
