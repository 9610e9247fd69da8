"""From an inference graph with a loss to a training step, by a gradient rule for each op."""
