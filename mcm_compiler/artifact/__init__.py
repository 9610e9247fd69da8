"""The output folder: its files, how they are written and read back."""
