"""Bounds on 600 random small machines, compared with the best of all placements.

    python tools/machine_bounds.py           compares, and writes tools/data/machine_bounds.json
    python tools/machine_bounds.py 20 40     seeds 20 to 39 alone, and writes nothing

Machines are lines, one-way and two-way rings, meshes, tori and lists of links, with chips of one,
two or three kinds. The best placement comes from trying all of them, by code that shares nothing
with the compiler (`tests/acme_mesh/tests/plain_mesh.py`). Exits with 1 where a bound is above it,
or where no check proves a bound.
"""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests" / "acme_mesh"))

from tests.oracles.machine_bounds import wrong_bounds  # noqa: E402

MACHINES = 600
RECORD = ROOT / "tools" / "data" / "machine_bounds.json"
LIBRARIES = ("mcm-compiler", "numpy", "numba", "ortools")


def main() -> int:
    """Compares; the exit status."""
    first, end = (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (0, MACHINES)
    seen, wrong = Counter[str](), dict[int, list[str]]()
    for seed in range(first, end):
        if found := wrong_bounds(seed, seen):
            wrong[seed] = found
            print(seed, *found, sep="\n  ", flush=True)
    if (first, end) == (0, MACHINES):
        record = {
            "command": "python tools/machine_bounds.py",
            "seeds": f"{first} to {end - 1}",
            "compared": dict(sorted(seen.items())),
            "wrong": wrong,
            "versions": {
                "python": platform.python_version(),
                **{name: version(name) for name in LIBRARIES},
            },
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"no wrong bound on {end - first - len(wrong)} of {end - first} machines")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
