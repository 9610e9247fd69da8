"""`python -m mcm_compiler.cli`: the same as `mcmc`."""

from __future__ import annotations

from mcm_compiler.cli.main import main

if __name__ == "__main__":
    main()
