"""Cuts of topological orders: windows along an order, dynamic programming, the greedy one."""
