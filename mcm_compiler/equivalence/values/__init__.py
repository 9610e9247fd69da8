"""Values numbered so that equal numbers mean equal values, in the model and on the chips."""
