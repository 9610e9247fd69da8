"""From a file to a checked model: versions, external data, functions, schemas."""
