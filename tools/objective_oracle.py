"""Objectives of partitioning against trying every placement, on 300 random small problems.

    python tools/objective_oracle.py           compares, and writes tools/data/objectives.json
    python tools/objective_oracle.py 20        the first 20 alone, and writes nothing

The oracle, `tests/oracles/plain_objectives.py`, shares no code with the search. Exits with 1 where
an answer or a bound is another; where the host reaches only the ends of the package, where a bound
is above the optimum.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.generators.objective_problems import objective_problem  # noqa: E402
from tests.oracles.objective_equality import differences  # noqa: E402

PROBLEMS = 300
RECORD = ROOT / "tools" / "data" / "objectives.json"


def main() -> int:
    """Compares; the exit status."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PROBLEMS
    different: dict[int, list[str]] = {}
    for seed in range(count):
        problem = objective_problem(seed)
        if found := differences(problem, exact=not problem.limits.at_ends):
            different[seed] = found
            print(seed, *found, sep="\n  ", flush=True)
    record = {"problems": count, "seeds": f"0 to {count - 1}", "different": different}
    if count == PROBLEMS:
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{count - len(different)} of {count} problems equal")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
