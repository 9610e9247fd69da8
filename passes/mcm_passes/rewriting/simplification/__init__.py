"""Graph simplifications that leave every output bit as it is."""
