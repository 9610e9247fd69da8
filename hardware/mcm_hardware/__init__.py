"""Hardware: targets, the analytic cost model, lowering and the simulator of ring packages."""
