"""What only one family of machines needs, one room a family."""
