"""Hardware: targets, the analytic cost model, lowering and the simulator of packages of chips."""
