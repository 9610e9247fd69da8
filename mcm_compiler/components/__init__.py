"""Components by name: targets and cost models, found, loaded and checked."""
