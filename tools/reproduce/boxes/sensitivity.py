"""What the ratios between placements in a box owe to numbers of devices that nobody measured.

The parameters of a kind of device are written down once, before anything is placed. This changes
one at a time: the launch of an op, the latency and the rate of copies, the arithmetic and memory
rates of GPUs. For each it says what the CPU alone, one GPU, a layer per GPU (by names), local
search and the bound come to, and how they stand to one GPU. Local search is played twice: the
placement that was found with the numbers as described, and one that was found with the changed
ones. Only ratios that hold in all rows mean something.
Writes `tools/reproduce/data/box_sensitivity.json` and the table in `docs/explanation/boxes.md`.
The search's seed is 0.

    python tools/reproduce/boxes/sensitivity.py
    python tools/reproduce/boxes/sensitivity.py --table-only
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler.api import build_zoo_model
from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.bounds import bound_step
from mcm_compiler.contracts.boxes.box import StepProblem
from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.machines.machine_builder import joined_devices
from mcm_compiler.plugin_files import load_plugin
from mcm_hardware.families.box.box_file import BoxSpec
from mcm_hardware.families.box.box_package import BoxPackage, box_2gpu
from mcm_passes.differentiation.differentiate import TrainingStepOptions, training_step
from mcm_passes.families.box.placers import LocalSearch

DATA = Path(__file__).parents[1] / "data" / "box_sensitivity.json"
DOCUMENT = Path(__file__).parents[3] / "docs" / "explanation" / "boxes.md"
BEGIN, END = "<!-- sensitivity:begin -->\n", "<!-- sensitivity:end -->\n"
SHOWN = (
    "as described",
    "launch of a GPU's op 20 us",
    "latency of a copy 100 us",
    "latency of a copy 400 us",
    "rate of copies x 0.5",
    "rate of copies x 2",
    "GPU's arithmetic x 1.65",
    "GPU's memory rate x 0.7",
)
"""Changes in the table of the page; the data have all."""

PLACEMENTS = {
    "layers": "a layer per GPU",
    "found as described": "search, as described",
    "found anew": "search, repeated",
}
"""Placements in the table by their key in the data."""

VERSIONS = ("mcm-compiler", "numpy", "onnx")
MODELS = {
    "RNNLM, 2 layers, 47 steps": "rnnlm{steps=47}",
    "translation, 2 layers, 20 steps": "nmt-training{layers=2,steps=20}",
}
EVALUATIONS = 4000
"""Of each local search."""

Change = Callable[[BoxSpec], BoxSpec]


def main(arguments: list[str]) -> int:
    """Simulates unless told not to, and writes data and table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table-only", action="store_true", help="take the data on record")
    if not parser.parse_args(arguments).table_only:
        load_plugin(Path(__file__).resolve().parents[1] / "hier_study" / "plugin.py")
        DATA.write_text(json.dumps(simulated(), indent=1) + "\n", encoding="utf-8")
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    shown = table(json.loads(DATA.read_text(encoding="utf-8")))
    text = before + BEGIN + shown + END + rest.partition(END)[2]
    DOCUMENT.write_text(text, encoding="utf-8")
    return 0


def changes() -> dict[str, Change]:
    """What is changed, by name; the first changes nothing."""
    made: dict[str, Change] = {"as described": lambda spec: spec}
    for us in (4, 20):
        made[f"launch of a GPU's op {us} us"] = _gpu(lambda kind, us=us: {"launch_s": us * 1e-6})
    for us in (5, 100, 400):
        made[f"latency of a copy {us} us"] = _copies(1.0, us * 1e-6)
    for factor in (0.5, 2.0):
        made[f"rate of copies x {factor:g}"] = _copies(factor, None)
    for factor in (0.7, 1.65):
        made[f"GPU's arithmetic x {factor:g}"] = _gpu(
            lambda kind, factor=factor: {"flops_per_s": kind.flops_per_s * factor}
        )
    for factor in (0.7, 1.5):
        made[f"GPU's memory rate x {factor:g}"] = _gpu(
            lambda kind, factor=factor: {"memory_bytes_per_s": kind.memory_bytes_per_s * factor}
        )
    return made


def _gpu(fields: Callable[[Any], dict[str, float]]) -> Change:
    def change(spec: BoxSpec) -> BoxSpec:
        kinds = [
            replace(kind, **fields(kind)) if kind.role == "gpu" else kind for kind in spec.kinds
        ]
        return replace(spec, kinds=tuple(kinds))

    return change


def _copies(factor: float, latency_s: float | None) -> Change:
    def change(spec: BoxSpec) -> BoxSpec:
        box = spec.box
        latency = box.copy_latency_s
        if latency_s is not None:
            latency = np.where(np.eye(box.num_devices, dtype=np.bool_), 0.0, latency_s)
        rate = box.copy_bytes_per_s * factor
        machine = joined_devices("box", box.memory_bytes, rate, latency, box.kind_of)
        return replace(spec, box=replace(box, machine=machine))

    return change


def simulated() -> dict[str, Any]:
    """Seconds of every model, change and placement."""
    rows: dict[str, Any] = {}
    described = box_2gpu()
    for title, source in MODELS.items():
        model, _ = import_model(build_zoo_model(source), source)
        step = training_step(model, TrainingStepOptions(optimizer="adam"))
        rows[title] = {}
        kept: Ints | None = None
        for name, change in changes().items():
            target = BoxPackage(described.name, change(described.spec), described.source_text)
            problem = target.step_problem(step.model, step.states)
            placements = by_name(problem, target.box.num_devices)
            anew = searched(target, problem)
            kept = anew if kept is None else kept
            placements |= {"found as described": kept, "found anew": anew}
            found = target.step_evaluator(problem).evaluate(np.stack([*placements.values()]))
            seconds = dict(zip(placements, found.seconds.tolist(), strict=True))
            fits = dict(zip(placements, found.fits.tolist(), strict=True))
            seconds["bound"] = bound_step(problem, target.box).seconds
            rows[title][name] = {"seconds": seconds, "fits": fits, "ops": problem.num_ops}
    return {"rows": rows, "versions": {name: metadata.version(name) for name in VERSIONS}}


def searched(target: BoxPackage, problem: StepProblem) -> Ints:
    """`[N]`, what local search finds."""
    evaluator = target.step_evaluator(problem)
    request = PlacerRequest(problem, target.box, evaluator, evaluations=EVALUATIONS)
    return LocalSearch().place(request).device_of


def by_name(problem: StepProblem, devices: int) -> dict[str, Ints]:
    """Placements without a search: `[N]` each. Device 0 is the CPU."""
    layers = int(problem.layer.max()) + 1
    where = 1 + np.maximum(problem.layer, 0) * (devices - 1) // layers
    where = np.where(problem.allowed[np.arange(problem.num_ops), where], where, 0)
    first = np.unique(problem.together, return_index=True)[1]
    one = np.where(problem.allowed[:, 1], 1, 0)
    return {
        "CPU": np.zeros(problem.num_ops, np.int32),
        "GPU": one.astype(np.int32),
        "layers": where[first][problem.together].astype(np.int32),
    }


def table(data: dict[str, Any]) -> str:
    """The changes that are shown: times of three placements of each model over one GPU's."""
    models = data["rows"]
    titles = [title.partition(",")[0] for title in models]
    heads = [f"{title}: {kind}" for title in titles for kind in PLACEMENTS.values()]
    lines = [f"| changed | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    for name in SHOWN:
        cells = [
            f"{rows[name]['seconds'][key] / rows[name]['seconds']['GPU']:.2f}"
            + ("" if rows[name]["fits"][key] else " *")
            for rows in models.values()
            for key in PLACEMENTS
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
