"""What only one family of machines needs, one folder each."""
