"""Compares the throughput that the compiler chooses with that of every number of replicas.

    python tools/bench/replica_choice.py                 20 models of the zoo, three packages
    python tools/bench/replica_choice.py --quick         three models on a package of 4 chips
    python tools/bench/replica_choice.py --default-only  CPU time of the default alone

Simulated throughput, for each model and package: of the default, and of `--replicas N` for every
N that leaves another share of the chips. Exits with 1 where some N is faster by more than 0.5 %.
Without `--quick` and `--default-only` it writes tools/bench/data/replica_choice.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parent / "data" / "replica_choice.json"
MARGIN = 0.005
PASSES = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate"
MODELS = (
    "bert{layers=4,hidden=256,heads=4,intermediate=1024}",
    "bert-base",
    "bert-tiny",
    "bidirectional-rnn",
    "branched-cnn",
    "conv-rnn",
    "dense-cnn",
    "encoder-decoder-rnn",
    "ensemble-cnn",
    "gpt2-tiny",
    "inception-v3",
    "lstm-lm",
    "mobilenet-v2",
    "plain-cnn",
    "residual-cnn",
    "resnet50",
    "separable-cnn",
    "stacked-rnn",
    "t5-small",
    "unet-cnn",
)
PACKAGES = ("mcm4", "mcm16", "mcm36-small")
QUICK = (("unet-cnn", "mobilenet-v2", "branched-cnn"), ("mcm4",))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="only a part")
    parser.add_argument("--default-only", action="store_true", help="ask for no number")
    parser.add_argument("--model", action="append", help="a model instead of the 20; repeatable")
    parser.add_argument("--target", action="append", help="a package instead of the 3; repeatable")
    asked = parser.parse_args(arguments)
    models, packages = QUICK if asked.quick else (MODELS, PACKAGES)
    models, packages = asked.model or models, asked.target or packages
    rows: list[dict[str, Any]] = []
    for model in models:
        for package in packages:
            rows.append(_row(model, package, every=not asked.default_only))
            if not asked.json:
                print(json.dumps(rows[-1]), flush=True)
    found = {"margin": MARGIN, "rows": rows}
    if asked.json:
        print(json.dumps(found))
    if not (asked.quick or asked.default_only or asked.model or asked.target):
        lines = ",\n".join(json.dumps(row) for row in rows)
        text = f'{{"margin": {MARGIN}, "rows": [\n{lines}\n]}}\n'
        RECORD.write_text(text, encoding="utf-8")
    return int(any((row.get("behind") or 0.0) > MARGIN for row in rows))


def _row(model: str, package: str, *, every: bool) -> dict[str, Any]:
    """The default and, where asked for, every number; throughput in inferences per second."""
    start = time.process_time()
    chosen, per_s = _compiled(model, package, None)
    row: dict[str, Any] = {
        "model": model,
        "package": package,
        "replicas": chosen,
        "per_s": per_s,
        "cpu_s": round(time.process_time() - start, 3),
    }
    if every:
        numbers = {str(n): _compiled(model, package, n)[1] for n in _numbers(package)}
        ran = {n: rate for n, rate in numbers.items() if rate is not None}
        best = max(ran, key=lambda n: ran[n], default=None)
        row["best"] = best
        row["behind"] = None if best is None else max(ran[best] / (per_s or 1e-300) - 1.0, 0.0)
    return row


def _numbers(package: str) -> Iterator[int]:
    from mcm_compiler.components.target_loading import load_target
    from mcm_compiler.contracts.target import machine_of
    from mcm_compiler.machines.machine_builder import equal_shares

    target = load_target(package)
    for count, _ in equal_shares(target.limits.num_chips, machine_of(target)):
        yield count


def _compiled(model: str, package: str, count: int | None) -> tuple[int | None, float | None]:
    """Replicas and simulated throughput; None where the compile is refused."""
    from mcm_compiler.api import run_passes
    from mcm_compiler.contracts.program import SIMULATION
    from mcm_compiler.contracts.replication import REPLICATION
    from mcm_compiler.diagnostics import CompileError
    from mcm_compiler.options import CompileOptions

    name = model if "/" in model else f"zoo:{model}"
    try:
        found, _, _ = run_passes(name, package, CompileOptions(passes=PASSES, replicas=count))
    except CompileError:
        return None, None
    side = REPLICATION.find(found)
    replicas = side.replicas if side else 1
    return replicas, (side.at_once if side else 1) / SIMULATION.get(found).period_s


if __name__ == "__main__":
    sys.exit(main())
