"""The bound over all divisions on 400 random graphs, compared with the best of all divisions.

    python tools/division_bounds.py          seeds 0 to 399
    python tools/division_bounds.py 20 40    seeds 20 to 39 alone

The best comes from trying all cuts and placements, by code that shares nothing with the compiler
(`tests/oracles/divided_periods.py`). Exits with 1 where a bound is above it, or where the check
does not prove a bound, or proves one that is longer by 0.1 %.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.property.test_division_bound import ratio_of


def main() -> int:
    """Compares; the exit status."""
    first, end = (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (0, 400)
    shares: list[float] = []
    wrong = 0
    for seed in range(first, end):
        share, proven = ratio_of(seed)
        if share > 1.0 + 1e-9 or not proven:
            wrong += 1
            print(f"seed {seed}: the bound is {share} of the best; proven: {proven}", flush=True)
        if share > 0.0:
            shares.append(share)
    print(
        f"no wrong bound on {end - first - wrong} of {end - first} graphs; {len(shares)} have a "
        f"division that fits, with a median bound of {statistics.median(shares):.3f} of the best"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
