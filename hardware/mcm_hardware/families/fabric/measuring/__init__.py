"""Simulator of mappings: the behaviour of a mapped fabric, flit by flit."""
