"""Holds proofs about memory against brute force over the memory planner.

    python tools/memory_proofs.py --cases 1000 --update

Draws small models (4 to 7 ops) for packages of 2 or 3 chips with tight memory, aligned buffers and
views, plans every assignment that the dependencies allow, and compares with all that the compiler
claims: refusals, bounds, optimality, what chips need at least, and what the checkers accept.
Ends with 1 if a claim is contradicted. `--update` writes tools/bench/data/memory_proofs.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np
from memory_oracle.cases import draw_case
from memory_oracle.oracle import Found, examine

DATA = Path(__file__).parent / "bench" / "data" / "memory_proofs.json"


def summary(found: list[Found], first: int) -> dict[str, object]:
    """The record of a run."""
    return {
        "command": f"python tools/memory_proofs.py --cases {len(found)} --first {first} --update",
        "first_seed": first,
        "cases": len(found),
        "assignments_planned": sum(one.assignments for one in found),
        "cases_where_some_fit": sum(one.fit > 0 for one in found),
        "refusals": dict(sorted(Counter(one.refused for one in found if one.refused).items())),
        "called_optimal": sum(one.proven for one in found),
        "not_found_though_some_fit": sum(one.fit > 0 and one.refused != "" for one in found),
        "contradictions": [f"{one.seed}: {text}" for one in found for text in one.contradictions],
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "ortools": version("ortools"),
        },
    }


def main() -> int:
    """The command line; 1 where a claim is contradicted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    found: list[Found] = []
    for seed in range(options.first, options.first + options.cases):
        found.append(examine(draw_case(seed)))
        for text in found[-1].contradictions:
            print(f"{seed}: {text}", flush=True)
    record = summary(found, options.first)
    print(json.dumps(record, indent=1))
    if options.update:
        DATA.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if record["contradictions"] else 0


if __name__ == "__main__":
    sys.exit(main())
