"""The learned mapping model: what it sees, how it is evaluated without JAX, and how it learns."""
