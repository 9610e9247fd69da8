"""Times of ops and kernels that were measured, from a table."""
