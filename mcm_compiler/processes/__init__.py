"""Processes and files that end well: staging, children under limits, signals."""
