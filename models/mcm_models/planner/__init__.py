"""The hierarchical planner of Mirhoseini et al. 2018: which ops go together, and where groups go.

`op_features` and `group_features` are what the networks see, `layout` is their shape, `networks`
are the networks in JAX, of `recurrence` and `attention`, `updates` samples from them and learns by
REINFORCE, `settings` says how, and `sampling` draws the groups of ops.
"""
