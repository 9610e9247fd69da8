"""Compiles models with twice and half of each resource: more of a resource is never slower.

    python tools/bench/monotone_variants.py          five models on five targets
    python tools/bench/monotone_variants.py --quick  two models on a line of 4 chips

Prints a row for each model and target, with the changes that contradict it or do not compare. Exits
with 1 where there is one. Where a smaller array fills sooner (0.07 % on BERT-tiny) or fewer chips
have more units copied (0.6 %), the target is compiled likewise. Without `--quick` it writes
tools/bench/data/monotone_variants.json. One mesh is that of the plug-in in tests/acme_mesh.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
RECORD = ROOT / "tools" / "bench" / "data" / "monotone_variants.json"
ROUNDING = 1e-6
MODELS = ("bert-tiny", "gpt2-tiny", "mobilenet-v2", "unet-cnn", "lstm-lm")
TARGETS = ("mcm16", "acme-mesh16", "line of mcm16", "mesh36", "torus36")
QUICK = (("unet-cnn", "gpt2-tiny"), ("line of mcm4",))
LINE = "line of "
PASSES = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compiles; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="only a part")
    parser.add_argument("--replicas", type=int, default=1, help="equal pipelines side by side")
    parser.add_argument("--model", action="append", help="a model instead of the five")
    parser.add_argument("--target", action="append", help="a target instead of the three")
    asked = parser.parse_args(arguments)
    models, targets = QUICK if asked.quick else (MODELS, TARGETS)
    rows: list[dict[str, Any]] = []
    for model in asked.model or models:
        for target in asked.target or targets:
            rows.append(_row(model, target, asked.replicas))
            if not asked.json:
                print(json.dumps(rows[-1]), flush=True)
    if asked.json:
        print(json.dumps({"rows": rows}))
    if not (asked.quick or asked.model or asked.target or asked.replicas != 1):
        lines = ",\n".join(json.dumps(row) for row in rows)
        RECORD.write_text(f'{{"rows": [\n{lines}\n]}}\n', encoding="utf-8")
    return int(any(row["contradictions"] for row in rows))


def _row(model: str, target: str, replicas: int | None) -> dict[str, Any]:
    from mcm_compiler.api import compile_model
    from mcm_compiler.options import CompileOptions

    start = time.process_time()
    found = compile_model(
        f"zoo:{model}",
        _target(target),
        CompileOptions(passes=PASSES, replicas=replicas),
        sensitivities=True,
    )
    speedups = {
        f"{row['factor']:g} x {row['resource']}": row["speedup"]
        for row in found.sensitivities or ()
    }
    against: dict[str, Any] = {
        change: speedup
        for change, speedup in speedups.items()
        if speedup is not None
        and (speedup < 1.0 - ROUNDING if change.startswith("2") else speedup > 1.0 + ROUNDING)
    }
    against |= {
        f"{row['factor']:g} x {row['resource']}": row["not_comparable"]
        for row in found.sensitivities or ()
        if "not_comparable" in row
    }
    assert found.simulation is not None
    return {
        "model": model,
        "target": target,
        "replicas": found.replication.replicas if found.replication else 1,
        "period_s": found.simulation.period_s,
        "changes": len(speedups),
        "contradictions": against,
        "cpu_s": round(time.process_time() - start, 2),
    }


def _target(name: str) -> Any:
    from mcm_compiler.components.target_loading import load_target, target_from_text

    if not name.startswith(LINE):
        return load_target(name)
    from tests.generators.line_machine import line_text

    return target_from_text("line", line_text(load_target(name.removeprefix(LINE)).source_text))


if __name__ == "__main__":
    sys.exit(main())
