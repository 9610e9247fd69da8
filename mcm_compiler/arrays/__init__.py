"""Arrays that all packages share: ragged rows, seeded randomness, lean kernels."""
