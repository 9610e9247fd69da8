"""Training of the policy that places clusters of steps and boxes that it has not seen.

`cases` makes them, `iterations` learns on them, `training_files` is what stays on disk, and
`placement_trainer` is `mcmc train placement`.
"""
