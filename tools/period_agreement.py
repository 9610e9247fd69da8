"""Simulated periods over analytic ones, for ten models of the zoo on each family of packages.

    python tools/period_agreement.py                     all models and targets
    python tools/period_agreement.py --only nmt mesh36   one pair; writes nothing

One pipeline of all chips is compiled for each pair, under the default cost model. Writes
tools/data/period_agreement.json. Exits with 1 where the simulator is slower by more than `MOST`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from mcm_compiler import CompileOptions, __version__, compile_model
from mcm_compiler.options import DEFAULT_PIPELINE

MODELS = (
    "resnet50",
    "mobilenet-v2",
    "inception-v3",
    "vgg19",
    "unet-cnn",
    "bert-base",
    "bert-large",
    "gpt2",
    "nmt",
    "t5-small",
)
TARGETS = ("mcm36", "mesh36", "torus36", "mixed16")
SEED = 0
PASSES = DEFAULT_PIPELINE.removesuffix(",verify")
MOST = 1.01
"""Simulated over analytic."""

RECORD = Path(__file__).resolve().parent / "data" / "period_agreement.json"


def row(model: str, target: str) -> dict[str, Any]:
    """One compile: its periods, its bound, and its CPU time."""
    began_s = time.process_time()
    options = CompileOptions(replicas=1, seed=SEED, passes=PASSES)
    found = compile_model(f"zoo:{model}", target, options)
    assert found.partition is not None
    assert found.simulation is not None
    analytic_s, simulated_s = found.partition.period_s, found.simulation.period_s
    return {
        "model": model,
        "target": target,
        "cost_model": found.target.cost_model().name,
        "analytic_us": round(analytic_s * 1e6, 4),
        "simulated_us": round(simulated_s * 1e6, 4),
        "ratio": round(simulated_s / analytic_s, 4),
        "bound_us": round(found.partition.bound.seconds * 1e6, 4),
        "cpu_s": round(time.process_time() - began_s),
    }


def main() -> int:
    """Compiles and writes."""
    parser = argparse.ArgumentParser(description="Simulated periods over analytic ones.")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD")
    only = set(parser.parse_args().only)
    rows: list[dict[str, Any]] = []
    for model in MODELS:
        for target in TARGETS:
            if only <= {model, target}:
                rows.append(row(model, target))
                print(*rows[-1].values(), flush=True)
    highest = max(one["ratio"] for one in rows)
    record = {
        "command": "python tools/period_agreement.py",
        "version": __version__,
        "seed": SEED,
        "level": CompileOptions().level,
        "highest_ratio": highest,
        "rows": rows,
    }
    if not only:
        del record["rows"]
        lines = ",\n".join(f"  {json.dumps(one)}" for one in rows)
        head = json.dumps(record, indent=1).removesuffix("\n}")
        RECORD.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    return int(highest > MOST)


if __name__ == "__main__":
    sys.exit(main())
