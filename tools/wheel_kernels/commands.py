"""Runs commands of `mcmc` one after the other in one process, which imports and loads all once.

Takes them as one argument, a list of lists of words in JSON; results go to the working directory.
The first that fails ends it.
"""

from __future__ import annotations

import json
import sys


def main() -> int:
    """The exit status of the command that failed, or 0."""
    from mcm_compiler.cli.main import cli

    for words in json.loads(sys.argv[1]):
        try:
            cli.main(words)
        except SystemExit as leaving:
            if leaving.code:
                return int(leaving.code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
