"""The batch evaluator of ring packages: lowering and simulation of partitions as arrays."""
