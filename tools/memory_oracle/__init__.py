"""Proofs about memory against brute force over the memory planner."""
