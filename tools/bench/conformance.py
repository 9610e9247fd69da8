"""How many of onnx's backend test cases compile and check equal.

`conformance_share` is the share of the cases that onnxruntime itself runs whose chips, compiled
for mcm4, give its bits. `conformance_s` is the time for all of them in two processes. `--update`
writes every exception with its reason to tools/bench/data/conformance.json, and from it
docs/results/conformance.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from backend_cases.collection import Case, collect
from backend_cases.judging import FAILED
from backend_cases.table import as_data, conformance_share, write
from backend_cases.workers import judge_all
from harness.bars import Bar, context, median_bar
from harness.command_line import Settings, run_script

# Light models get the weights that tests give them.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

PROCESSES = 2
CASE_LIMIT_S = 240.0
"""Far beyond what a case takes on an idle machine; VGG-19 takes 20 s there."""


def measure(settings: Settings) -> list[Bar]:
    """Both bars; over a subset of the cases where `settings.quick`."""
    start = time.perf_counter()
    cases: list[Case] = collect(settings.quick)
    outcomes = judge_all(cases, PROCESSES, CASE_LIMIT_S)
    seconds = time.perf_counter() - start
    for outcome in outcomes:
        if outcome.verdict == FAILED:
            print(f"{outcome.category}/{outcome.name}: {outcome.reason}: {outcome.detail}",
                  file=sys.stderr)  # fmt: skip
    if settings.update:
        write(as_data(outcomes, context()["versions"]))
    return [
        median_bar("conformance_share", [conformance_share(outcomes)], 0.99, "above"),
        median_bar("conformance_s", [seconds], 900.0),
    ]


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure, can_update=True))
