"""Partitions that are proven optimal, and proofs that there is none."""
