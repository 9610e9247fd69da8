"""Placers that learn: the hierarchical planner, the same with given groups, and controls.

`placement_units` says what is decided, `judged` asks the evaluator and keeps
the best, `credit` shares a result among decisions, `planning` is the loop, `planner_state` what it
leaves on disk, and the rest are placers by name.
"""
