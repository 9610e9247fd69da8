"""The graph network that corrects `round-trips`, of the LCM study.

`layout` has its features and weights, `graphs` the features of mappings, `training` the network in
JAX and how it learns, `feature_kernels` and `network_kernels` the same network in compiled code,
`gnn` the mapping model, `rounds` and `network_trainer` the training in rounds. `plugin` registers
the model and the trainer.
"""
