"""Running models in onnxruntime on seeded or given inputs."""
