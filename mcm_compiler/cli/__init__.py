"""The command line `mcmc`: `main` dispatches, one verb a file."""
