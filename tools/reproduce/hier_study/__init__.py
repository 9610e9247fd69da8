"""What the scripts on the hierarchical planner share."""
