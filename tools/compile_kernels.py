"""Has numba compile what most commands and tests need, once, beside the sources of this checkout.

Tests in several processes would each compile what they meet first. Run with the interpreter of
`.venv`; what is compiled already takes the time of running the commands alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wheel_kernels.filling import fill

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Compiles them; 0, or the exception of the command that failed."""
    fill(ROOT, at_once=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
