"""Placements that answer one sample soonest, one contiguous part per accelerator."""
