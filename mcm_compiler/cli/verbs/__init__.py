"""The verbs of `mcmc`, one a module."""
