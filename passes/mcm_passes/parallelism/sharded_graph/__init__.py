"""The graph of the divided model, written with standard operators."""
