"""A first project file: the models of a folder, and sizes for their open dimensions."""
