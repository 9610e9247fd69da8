"""Facts about a graph in memory: annotations, constants, dimensions, structure, limits."""
