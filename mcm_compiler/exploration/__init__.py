"""Models on many variants of a target: sweeps, their results, and the Pareto front."""
