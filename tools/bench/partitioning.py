"""How good the partitions of every strategy are, and what they cost.

Each cell of the table is one strategy on one problem, in a process of its own with a time limit:
models on a roomy package and on tight ones with the effort of `-O2`, some of them again with the
evaluator in the loop, and the inputs of the device-placement paper. Cells are kept in a file as
they come, and a later run measures those that are missing. `--update` writes what is there to
tools/bench/data/partitioning.json and docs/results/partitioning-results.md.

The exit status is 1 where a member of the portfolio beats it at the same seed and effort.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partition_cases.isolation import Job, Record
    from partition_cases.plan import Plan
    from partition_cases.records import Records

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tools" / "bench" / "data" / "partitioning.json"
PAGE = ROOT / "docs" / "results" / "partitioning-results.md"
INPUTS = ROOT / "tests" / "data" / "device_placement"
CELLS = ROOT / "build" / "partitioning-cells.jsonl"

COMMAND = "python tools/bench/partitioning.py --update --seeds {} --budget {:g}"
WARM_UP_LIMIT_S = 1800.0
QUICK_STRATEGIES = ("cpsat", "dp", "local_search", "portfolio")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures what is missing and shows the bars."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.quick and (asked.update or asked.render):
        parser.error("--quick measures too little to be written")
    # So that no child outlives a run that is ended.
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory() as folder:
        return _run(asked, Path(folder) / "cells.jsonl" if asked.quick else asked.cells)


def _end(_number: int, _frame: object) -> None:
    sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="only a part, in less than 50 s")
    parser.add_argument("--update", action="store_true", help="write data and page")
    parser.add_argument("--render", action="store_true", help="measure nothing, write both")
    parser.add_argument(
        "--only",
        metavar="TEXT",
        action="append",
        help="measure cells with this in their name; repeatable, the first come first",
    )
    parser.add_argument("--fresh", action="store_true", help="again what older code measured")
    parser.add_argument("--cells", type=Path, default=CELLS, help="file that keeps the cells")
    parser.add_argument("--workers", type=int, default=1, help="cells at a time (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (default: 1)")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of -O3; 0: leave out")
    parser.add_argument(
        "--device-placement", type=Path, default=INPUTS, metavar="FOLDER", help="placement problems"
    )
    parser.add_argument("--note", default="", help="a remark for the page")
    return parser


def _run(asked: argparse.Namespace, cells_file: Path) -> int:
    from harness.bars import as_json, as_table, context
    from partition_cases.checks import bars
    from partition_cases.records import Records
    from partition_cases.table import render
    from partition_cases.table_data import as_data

    plan = _plan(asked)
    records = Records(cells_file)
    tightness = plan.tightness()
    _measure(asked, tightness, records)
    found = {
        str(job.head["model"]): record
        for job in tightness
        if (record := records.find(job.key)) is not None
    }
    cells = plan.cells(plan.specs(found))
    _measure(asked, cells, records, plan)
    details: dict[str, Any] = {
        "command": COMMAND.format(len(plan.seeds), plan.budget_s),
        "seeds": list(plan.seeds),
        "budget_s": plan.budget_s,
        "workers": asked.workers,
        "note": asked.note,
    }
    data = as_data(tightness, cells, records, context() | details)
    if asked.update or asked.render:
        DATA.parent.mkdir(exist_ok=True)
        text = json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False)
        DATA.write_text(text + "\n", encoding="utf-8")
        PAGE.write_text(render(data), encoding="utf-8")
    held = bars(data)
    print(as_json(held, quick=asked.quick) if asked.json else as_table(held))
    return 0 if all(bar.holds for bar in held if bar.name == "portfolio_losses") else 1


def _plan(asked: argparse.Namespace) -> Plan:
    from partition_cases.cells import strategies
    from partition_cases.packages import MODELS, QUICK
    from partition_cases.plan import Plan

    if asked.quick:
        texts = [text for text in strategies() if text in QUICK_STRATEGIES]
        return Plan({QUICK: MODELS[QUICK]}, texts, (0,), 0.0, ())
    return Plan(
        models=MODELS,
        strategies=strategies(),
        seeds=tuple(range(asked.seeds)),
        budget_s=asked.budget,
        placements=sorted(asked.device_placement.glob("*.json")),
    )


def _measure(
    asked: argparse.Namespace, jobs: Sequence[Job], records: Records, plan: Plan | None = None
) -> None:
    """Measures jobs that have no record yet."""
    from partition_cases.cases import CaseSpec
    from partition_cases.cells import warm_up
    from partition_cases.isolation import Job, run_jobs
    from partition_cases.packages import MODELS, QUICK

    if asked.render:
        return
    missing = [
        job
        for job in dict.fromkeys(
            job for text in asked.only or ("",) for job in jobs if text in job.key
        )
        if records.find(job.key, fresh=asked.fresh) is None
    ]
    if not missing:
        return
    if plan is not None:
        small = plan.cases.get(CaseSpec(QUICK, MODELS[QUICK], "roomy", "relay"))
        texts, placement = list(plan.strategies), next(iter(plan.placements), None)

        def warm() -> Record:
            warm_up(small, texts, placement)
            return {}

        # What has to be compiled is compiled in a child, which takes the compiler's memory along.
        run_jobs([Job("warm up", {}, WARM_UP_LIMIT_S, warm)], 1, lambda _: None)
        warm()
    start, done = time.monotonic(), 0

    def keep(record: Record) -> None:
        nonlocal done
        done += 1
        records.keep(record)
        seconds = record.get("wall_s", 0.0)
        print(
            f"{time.monotonic() - start:6.0f} s {done}/{len(missing)} {record['key']}: "
            f"{record['status']} in {seconds:.1f} s",
            file=sys.stderr,
            flush=True,
        )

    run_jobs(missing, asked.workers, keep)


if __name__ == "__main__":
    sys.exit(main())
