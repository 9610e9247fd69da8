"""What a report advises: moves of ops that help, pins in their way, what limits pipelines."""
