"""Strategies of partitioning that search: one a file, all anytime."""
