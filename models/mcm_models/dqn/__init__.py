"""Deep Q-learning on small decision problems, in NumPy.

Rainbow-style (Hessel et al. 2018) as Auto-MAP (Wang et al. 2020, section 3.4) uses it: double,
dueling, prioritized replay, no noisy nets. `settings` names what can vary, `network` is the
network, `learner` learns in episodes of an environment and keeps the best answer seen, `decisions`
is the environment of operator partitioning.
"""
