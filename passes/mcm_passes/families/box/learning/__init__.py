"""Placers that learn: the hierarchical planner, the same with given groups, and controls.

`credit` shares a result among decisions, `planning` is the loop, `planner_state` what it
leaves on disk, and the rest are placers by name.
"""
