"""Pipeline planning by deep Q-learning on the model at hand (Auto-MAP, section 3.4).

`pipeline_environment` is where it learns, `pipeline_learning` learns, and `planner` records what it
finds next to exact plans, which `plugin` registers.
"""
