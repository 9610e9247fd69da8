"""The parts of `mcm_*.py`: constrained reinforcement learning, measured as its paper does."""
