"""How many partitions a second the batch evaluator simulates, and that it is right.

All partitions are such that fit and run, since what is refused takes less time. `*_one_ms` is one
partition per call. `*_per_s` is a batch on all cores: random contiguous partitions, and
near-optimal ones, which are those of the default strategy with one to three units moved.
`*_cpu_ms` is the processor time of one partition in a batch; with nothing else running, two cores
evaluate 2000 / `*_cpu_ms` a second.
`judge_setup_growth` is the time per op of making an evaluator for 100,000 ops, over that for
10,000. `judge_disagreements` counts partitions whose memory, period or latency differ from what the
passes come to. `--update` writes tools/bench/data/batch_evaluator.json.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.bars import Bar, as_json, median_bar
from harness.command_line import Settings, run_script

DATA = Path(__file__).with_name("data") / "batch_evaluator.json"

ROWS = 1024
"""Partitions of a batch."""

SINGLES = 200
"""Partitions that are evaluated one by one."""

COMPARED = {
    "zoo:resnet50": 6,
    "zoo:mobilenet-v2": 6,
    "zoo:inception-v3": 4,
    "zoo:lstm-lm": 6,
    "zoo:gpt2-tiny": 12,
    "zoo:bert-tiny": 12,
    "zoo:t5{layers=2,decoder_layers=2,hidden=64,heads=2,intermediate=128,vocab=200}": 12,
    "zoo:bert-large": 3,
}
"""Models whose partitions are compared with the passes, and how many of each kind."""

GROWTH = "zoo:bert{{layers={},hidden=64,heads=2,intermediate=128,vocab=100,seq=16,shape_only=true}}"
"""BERT with about 51 ops in a layer."""


def measure(settings: Settings) -> list[Bar]:
    """All bars, or the rates alone where `settings.quick`."""
    bars = [*_rates("resnet50", "zoo:resnet50{shape_only=true}", 4000.0, settings)]
    bars += _rates("bert_large", "zoo:bert-large{shape_only=true}", 500.0, settings)
    if not settings.quick:
        bars += [_growth(), _disagreements()]
    if settings.update:
        DATA.write_text(as_json(bars, rows=ROWS) + "\n", encoding="utf-8")
    return bars


def _rates(name: str, source: str, bar: float, settings: Settings) -> Sequence[Bar]:
    from evaluator_cases.problems import contiguous_that_run, near_optimal, prepare

    case = prepare(source)
    bars = [median_bar(f"{name}_judge_setup_s", [case.setup_s], 5.0)]
    kinds = {"": contiguous_that_run(case, ROWS), "near_optimal_": near_optimal(case, ROWS)}
    for kind, rows in kinds.items():
        singles: list[float] = []
        for row in rows[:SINGLES]:
            start = time.perf_counter()
            case.evaluator.evaluate(row[None])
            singles.append(1e3 * (time.perf_counter() - start))
        rates: list[float] = []
        cpu_ms: list[float] = []
        for _ in range(settings.repetitions):
            start, cpu_start = time.perf_counter(), time.process_time()
            case.evaluator.evaluate(rows)
            rates.append(len(rows) / (time.perf_counter() - start))
            cpu_ms.append(1e3 * (time.process_time() - cpu_start) / len(rows))
        bars += [
            median_bar(f"{name}_{kind}one_ms", singles, 10.0),
            median_bar(f"{name}_{kind}per_s", rates, bar, "above"),
            median_bar(f"{name}_{kind}cpu_ms", cpu_ms, 2000.0 / bar),
        ]
    return bars


def _growth() -> Bar:
    from evaluator_cases.problems import prepare

    small, large = (prepare(GROWTH.format(layers)) for layers in (200, 2000))
    growth = (large.setup_s / large.num_ops) / (small.setup_s / small.num_ops)
    print(
        f"setup: {small.num_ops} ops {small.setup_s:.2f} s, "
        f"{large.num_ops} ops {large.setup_s:.2f} s",
        file=sys.stderr,
    )
    return median_bar("judge_setup_growth", [growth], 2.0)


def _disagreements() -> Bar:
    from evaluator_cases.agreement import disagreements
    from evaluator_cases.problems import contiguous_that_run, near_optimal, prepare

    found: list[str] = []
    for source, count in COMPARED.items():
        case = prepare(source)
        for rows in (contiguous_that_run(case, count), near_optimal(case, count)):
            found += disagreements(case, rows)
    for line in found:
        print(line, file=sys.stderr)
    return median_bar("judge_disagreements", [float(len(found))], 1.0)


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure, can_update=True))
