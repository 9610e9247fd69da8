"""The ring's problem as a CP-SAT model in the order encoding."""
