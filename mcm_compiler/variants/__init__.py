"""One model on many variants of a target: what does not depend on the target is done once."""
