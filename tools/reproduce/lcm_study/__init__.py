"""Studies of mapping models: accuracy."""
