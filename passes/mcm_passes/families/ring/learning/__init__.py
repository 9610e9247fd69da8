"""Learned search: a policy proposes, the constraint solver repairs, a judge rewards (MCM)."""
