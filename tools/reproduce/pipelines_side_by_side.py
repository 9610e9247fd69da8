"""The number of pipelines that the compiler chooses, against every number simulated one by one.

Compiles each model at -O2 as it is, and once for each number of equal pipelines that the package
can have, with all passes up to the simulator, under the roofline as what is on record. Of the
numbers that leave each pipeline the same chips only the largest is compiled: fewer pipelines like
it answer less often. Writes a record per model and target to
`tools/reproduce/data/pipelines_side_by_side.json`, next to those that are there.
Nothing is random but the seed of the compile, which is 0.

    python tools/reproduce/pipelines_side_by_side.py
    python tools/reproduce/pipelines_side_by_side.py --target mcm36-small zoo:ensemble-cnn
    python tools/reproduce/pipelines_side_by_side.py --choice-only

The last one compiles without a given number alone, and compares that with the numbers on record.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.program import SIMULATION
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.diagnostics import CompileError

DATA = Path(__file__).with_name("data") / "pipelines_side_by_side.json"
VERSIONS = ("mcm-compiler", "numpy", "onnx", "ortools")
LEVEL = 2
PASSES = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate"
MODELS = (
    "zoo:mobilenet-v2",
    "zoo:resnet50",
    "zoo:gpt2",
    "zoo:vgg19",
    "zoo:inception-v3",
    "zoo:unet-cnn",
    "zoo:dense-cnn",
    "zoo:lstm-lm",
    "zoo:bert-tiny",
    "zoo:gpt2-tiny",
)
MOST_LOSS = 0.02
"""Share of the best number's throughput that the chosen one may lack."""


def main(arguments: list[str]) -> int:
    """Measures, writes, and says whether every choice is as good as it must be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--target", default="mcm36")
    parser.add_argument("--choice-only", action="store_true", help="take the numbers on record")
    given = parser.parse_args(arguments)
    known = {_place(record): record["numbers"] for record in recorded()}
    holds = True
    for model in given.models:
        numbers = known.get((given.target, model)) if given.choice_only else None
        record = measured(model, given.target, numbers)
        keep(record)
        holds = holds and record["loss"] <= MOST_LOSS
        print(
            f"{given.target} {model}: {record['chosen']['replicas']} pipelines at "
            f"{record['chosen']['throughput_per_s']:,.1f}/s, best of "
            f"{len(record['numbers'])} numbers {record['best_per_s']:,.1f}/s, "
            f"loss {record['loss']:.2%}",
            flush=True,
        )
    return 0 if holds else 1


def measured(
    model: str, target: str, numbers: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """What is chosen, and what every number comes to, if that is not known already."""
    chips = load_target(target).limits.num_chips
    shares = sorted({chips // count for count in range(1, chips + 1)}, reverse=True)
    if numbers is None:
        numbers = [compiled(model, target, chips // each) for each in shares]
    chosen = compiled(model, target, None)
    best = max(number.get("throughput_per_s", 0.0) for number in numbers)
    return {
        "model": model,
        "target": target,
        "level": LEVEL,
        "seed": 0,
        "chosen": chosen,
        "best_per_s": best,
        "loss": max(1.0 - chosen["throughput_per_s"] / best, 0.0),
        "numbers": numbers,
        "versions": {name: metadata.version(name) for name in VERSIONS},
    }


def compiled(model: str, target: str, replicas: int | None) -> dict[str, Any]:
    """One number of pipelines, or the compiler's choice where it is None."""
    options = CompileOptions(level=LEVEL, replicas=replicas, passes=PASSES, cost_model="roofline")
    try:
        found, _, _ = run_passes(model, target, options)
    except CompileError as error:
        if replicas is None:
            raise
        return {"replicas": replicas, "fault": error.diagnostics[0].code}
    replication, simulation = REPLICATION.get(found), SIMULATION.get(found)
    return {
        "replicas": replication.replicas,
        "chips_each": replication.chips_each,
        "throughput_per_s": round(replication.at_once / simulation.period_s, 1),
    }


def recorded() -> list[dict[str, Any]]:
    """All records."""
    return json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else []


def keep(record: dict[str, Any]) -> None:
    """Puts a record in the place of the one of the same model and target."""
    rest = [old for old in recorded() if _place(old) != _place(record)]
    rest.append(record)
    records = sorted(rest, key=_place)
    DATA.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def _place(record: dict[str, Any]) -> tuple[str, str]:
    return record["target"], record["model"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
