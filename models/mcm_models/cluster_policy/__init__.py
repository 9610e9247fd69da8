"""A policy that places clusters of ops, of models and boxes that it has not seen.

`cluster_graph` is the graph to place. `decoding` has what the policy sees of a cluster and a device
and how it decides, compiled and without JAX. `layout` names its weights, `learning` updates them in
JAX, `policy_file` stores them, and `synthetic_steps` are the random steps that it learns on.
"""
