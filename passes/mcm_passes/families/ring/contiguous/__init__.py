"""Cuts of topological orders: windows along an order, and dynamic programming."""
