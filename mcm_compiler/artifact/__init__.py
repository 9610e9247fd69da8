"""The output folder: its files, how they are written, read back, checked, run and simulated."""
