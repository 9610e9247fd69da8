"""`python -m mcm_compiler`, the same as `mcmc`."""

from mcm_compiler.cli.main import main

main()
