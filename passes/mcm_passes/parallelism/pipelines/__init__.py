"""Pipeline planning: where a model is cut into stages, and which devices each stage gets."""
