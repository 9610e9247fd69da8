"""The passes, in the order of the road from an imported model to a checked folder."""
