"""A package of chips on any machine: lowering, transfers, simulation."""
