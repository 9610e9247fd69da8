"""What studies of fabrics share."""
