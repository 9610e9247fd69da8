"""The hierarchical planner of Mirhoseini et al. 2018: which ops go together, and where groups go.

`op_features` is what the networks see, `planner_settings` their shape and how they learn,
`networks` are the networks in JAX, of the layers in `recurrence`, `updates` samples from them and
learns by REINFORCE, `sampling` draws the groups of ops, `planning` is the loop, and `placers` are
placers by name, which `plugin` registers.
"""
