"""What tensors load on their way along a ring."""
