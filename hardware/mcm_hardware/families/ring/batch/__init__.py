"""The batch judge of ring packages: lowering and simulation of partitions as arrays."""
