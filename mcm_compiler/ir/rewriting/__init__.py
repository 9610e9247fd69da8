"""Graphs to graphs and files: names, copies, splits, writing and printing."""
