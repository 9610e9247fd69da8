"""What ops ask of a chip's engines, by family; formulas see shapes and attributes only."""
