"""The simulator's core: events of a program, max-plus algebra, cycle ratio, steady state."""
