"""Deep Q-learning on small decision problems, environment and learner in one jitted program.

Rainbow-style (Hessel et al. 2018) as Auto-MAP (Wang et al. 2020, section 3.4) uses it: double,
dueling, prioritized replay, no noisy nets. `settings` names what can vary, `environment` is what a
problem implements, `layout` is the network, `training` learns (in `rounds` of `episodes`) and keeps
the best state seen. `numpy_learner` does the same in NumPy, for problems of a few steps. Modules
named plain, `settings`, `layout`, `decision_arrays` and `inference` do without JAX.
"""
