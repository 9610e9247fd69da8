"""Deep Q-learning on small decision problems, in NumPy, and a planner that compares it.

Rainbow-style (Hessel et al. 2018) as Auto-MAP (Wang et al. 2020, section 3.4) uses it: double,
dueling, prioritized replay, no noisy nets. `network` is the network, `learner` learns in episodes
of an environment and keeps the best answer seen. `decision_learning` learns what to divide, in
`decision_environment`. `planner` records it next to exact plans. `tools/reproduce/automap_dqn`
learns where to cut a pipeline, too.
"""
