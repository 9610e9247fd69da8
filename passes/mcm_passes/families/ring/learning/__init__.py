"""Learned search: a policy proposes, the constraint solver repairs, an evaluator rewards (MCM)."""
