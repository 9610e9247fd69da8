"""Small kernels that the rest compiles into its own."""
