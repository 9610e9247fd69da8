"""An output folder proven again: files, structure, figures, certificate and outputs."""
