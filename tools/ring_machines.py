"""Analytic model, lowered programs and bounds on 600 random ring packages and models.

    python tools/ring_machines.py           compares, and writes tools/data/ring_machines.json
    python tools/ring_machines.py 20 40     seeds 20 to 39 alone, and writes nothing

Bytes of each channel and the latency of one inference must be those of the lowered program on its
machine, and no bound on period, latency, energy, period within a latency or chips may be above the
optimum that trying every placement gives (`tests/oracles/plain_objectives.py`, which shares no code
with the compiler). Exits with 1 where something differs.
"""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.oracles.machine_agreement import disagreements  # noqa: E402

PROBLEMS, JOBS = 600, 6
RECORD = ROOT / "tools" / "data" / "ring_machines.json"
LIBRARIES = ("mcm-compiler", "numpy", "numba", "onnx", "onnx-ir")


def main() -> int:
    """Compares; the exit status."""
    first, end = (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (0, PROBLEMS)
    seen, different = Counter[str](), dict[int, list[str]]()
    with ProcessPoolExecutor(JOBS, mp_context=get_context("spawn")) as pool:
        for seed, (found, counts) in enumerate(pool.map(_compared, range(first, end)), first):
            seen += counts
            if found:
                different[seed] = found
                print(seed, *found, sep="\n  ", flush=True)
            if seed % 50 == 0:
                print(f"seed {seed}", flush=True)
    if (first, end) == (0, PROBLEMS):
        versions = {name: version(name) for name in LIBRARIES}
        record = {
            "command": "python tools/ring_machines.py",
            "seeds": f"{first} to {end - 1}",
            "compared": dict(sorted(seen.items())),
            "different": different,
            "versions": {"python": platform.python_version(), **versions},
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{end - first - len(different)} of {end - first} problems agree")
    return 1 if different else 0


def _compared(seed: int) -> tuple[list[str], Counter[str]]:
    seen = Counter[str]()
    return disagreements(seed, seen), seen


if __name__ == "__main__":
    sys.exit(main())
