"""Holds proofs about memory against brute force over the memory planner.

    python tools/memory_proofs.py --cases 1000 --update

Draws small models (4 to 7 ops) for packages of 2 or 3 chips with tight memory, aligned buffers and
views, plans every assignment that the dependencies allow, and compares with all that the compiler
claims: refusals, bounds, optimality, what chips need at least, and what the checkers accept.
Ends with 1 if a claim is contradicted. `--update` writes tools/bench/data/memory_proofs.json, after
every few cases; a run that is ended goes on from there.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from memory_oracle.cases import draw_case
from memory_oracle.oracle import Found, examine

DATA = Path(__file__).parent / "bench" / "data" / "memory_proofs.json"

STEP = 25
"""Cases between two records."""

Record = dict[str, Any]


def empty_record() -> Record:
    """The record of no case."""
    return {
        "command": "python tools/memory_proofs.py --cases 1000 --update",
        "seeds": "0 up to the number of cases",
        "cases": 0,
        "assignments_planned": 0,
        "cases_where_some_fit": 0,
        "refusals": {},
        "called_optimal": 0,
        "not_found_though_some_fit": 0,
        "contradictions": [],
    }


def add(record: Record, found: Found) -> None:
    """Counts one case more."""
    record["cases"] += 1
    record["assignments_planned"] += found.assignments
    record["cases_where_some_fit"] += found.fit > 0
    record["called_optimal"] += found.proven
    record["not_found_though_some_fit"] += found.fit > 0 and found.refused != ""
    record["contradictions"] += [f"{found.seed}: {text}" for text in found.contradictions]
    if found.refused:
        refusals = record["refusals"]
        refusals[found.refused] = refusals.get(found.refused, 0) + 1
        record["refusals"] = dict(sorted(refusals.items()))


def main() -> int:
    """The command line; 1 where a claim is contradicted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    record = empty_record()
    if options.update and DATA.exists():
        kept: Record = json.loads(DATA.read_text(encoding="utf-8"))
        record = kept if kept["cases"] < options.cases else record
    while record["cases"] < options.cases:
        add(record, examine(draw_case(record["cases"])))
        if options.update and (record["cases"] % STEP == 0 or record["cases"] == options.cases):
            record["versions"] = {
                "python": platform.python_version(),
                "numpy": np.__version__,
                "ortools": version("ortools"),
            }
            DATA.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    return 1 if record["contradictions"] else 0


if __name__ == "__main__":
    sys.exit(main())
