"""`python -m mcm_compiler`, the same as `mcmc`."""

from mcm_compiler.console import main

main()
