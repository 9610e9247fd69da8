"""Clusters of the ops of a step, which placers move as one: found from weights, without names."""
