"""An output folder proven anew: files, structure, figures, certificate and outputs."""
