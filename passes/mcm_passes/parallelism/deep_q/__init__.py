"""Deep Q-learning on small decision problems, in NumPy, and a planner that compares it.

Rainbow-style (Hessel et al. 2018) as Auto-MAP (Wang et al. 2020, section 3.4) uses it: double,
dueling, prioritized replay, no noisy nets. `decision_game` is what is played, `q_learning` learns
it and keeps the best decision seen. `planner` records it next to exact plans. The published
settings, and learning where to cut a pipeline, are in `tools/reproduce`.
"""
