"""Descriptions of fabrics: keys, reading, and those that come with the compiler."""
