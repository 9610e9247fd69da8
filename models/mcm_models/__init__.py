"""Models of the project: learned networks with their checkpoints, and the zoo of workloads."""
