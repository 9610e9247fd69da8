"""Training of the policy that places clusters of steps and boxes that it has not seen.

`cases` makes them and learns on them, and `placement_trainer` is `mcmc train placement`.
"""
