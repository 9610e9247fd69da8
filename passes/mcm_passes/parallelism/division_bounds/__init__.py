"""A lower bound over every way to divide, copy and place the kernels of a model."""
