"""Packages whose chips form a line, a ring, a mesh, a torus, or any list of links."""
