"""Compare the analytic model with the evaluator: MCM, section 5.4, on our simulator.

Draws random valid partitions of a model, asks the analytic model and the evaluator for the period
of each, and reports how they correlate, what the evaluator rejects, and why the two differ. There
are three populations: `uniform` is the paper's random search (uniform probabilities, SAMPLE, random
node order); `uniform, roomy` is the same on chips with 1 GiB, so that all of them run; `near` is
what search sees in the end: the default strategy's partition with units moved at random, repaired
by FIX. Writes `tools/reproduce/data/calibration.json`, `docs/results/calibration.md` and
its picture.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
from calibration_study.agreement import summary
from calibration_study.measurement import POPULATIONS, measure
from calibration_study.page import page

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tools" / "reproduce" / "data" / "calibration.json"
PAGE = ROOT / "docs" / "results" / "calibration.md"
PLOT = ROOT / "docs" / "results" / "images" / "calibration.svg"
VERSIONS = ("mcm-compiler", "numba", "numpy", "onnx", "onnxruntime")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare the analytic model with the simulator.")
    parser.add_argument("--model", default="zoo:bert-large{shape_only=true}")
    parser.add_argument("--target", default="mcm36")
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--update", action="store_true", help="write the data and the plot")
    arguments = parser.parse_args()
    drawn = {
        f"{population}, {routing}": measure(
            arguments.model,
            arguments.target,
            routing,
            population,
            arguments.partitions,
            arguments.seed,
        )
        for population in POPULATIONS
        for routing in ("relay", "strict")
    }
    result = {
        "command": f"python tools/reproduce/calibration.py --model '{arguments.model}' "
        f"--target {arguments.target} --partitions {arguments.partitions} "
        f"--seed {arguments.seed} --update",
        "versions": {name: metadata.version(name) for name in VERSIONS},
        "populations": {name: summary(samples) for name, samples in drawn.items()},
    }
    text = json.dumps(result, indent=2)
    sys.stdout.write(text + "\n")
    if arguments.update:
        from calibration_study.scatter import picture

        DATA.parent.mkdir(parents=True, exist_ok=True)
        DATA.write_text(text + "\n", encoding="utf-8")
        PAGE.write_text(page(result), encoding="utf-8")
        PLOT.write_text(picture(drawn), encoding="utf-8")
    return 0


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    sys.exit(main())
