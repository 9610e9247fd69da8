"""Arrays that all packages share: ragged rows, seeded randomness, ways to compile kernels."""
