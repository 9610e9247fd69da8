"""Clusters of servers with accelerators: descriptions, numbers, and the cost of ops on a device."""
