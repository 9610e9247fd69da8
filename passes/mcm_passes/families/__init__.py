"""Parts of only one family of machines, one folder each."""
