"""Models on many variants of a target: sweeps, what they come to, and the Pareto front."""
