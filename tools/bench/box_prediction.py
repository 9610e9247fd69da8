"""How well the simulated time of a step tells the measured one, where devices are cores.

A box of two cores, one thread each. Times of ops come from onnxruntime's profile of the model on
one core (`mcmc place --profile`). Placements are drawn: runs of consecutive ops go to random
cores, in equal or unequal shares, some with many short runs and some with few long ones.
Each is written as a folder, and its segments run as its schedule says: a thread for each core
starts a segment as soon as all its inputs are there. What is predicted is the time of the step in
segments, dispatches included; what is measured is the median of several steps.

`rank_correlation` is Spearman's, over all placements; `measured_over_predicted` is a ratio for
each. A machine with other work on its cores measures that work; the bars are meant for a quiet one.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from harness.bars import Bar, median_bar
from harness.command_line import Settings, run_script

if TYPE_CHECKING:
    from mcm_compiler.contracts.boxes.box import Box
    from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
    from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
    from mcm_compiler.contracts.boxes.step import StepProblem

MODEL = "zoo:ensemble-cnn"

BOX = """
family = "box"
summary = "two cores of this machine"

[[device]]
kind = "cpu-core"
count = 2

[copy]
host_bandwidth_gb_per_s = 1000
device_bandwidth_gb_per_s = 1000
latency_us = 0
"""

PLACEMENTS = 30
RUN_LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128)
SHARES = (0.5, 0.25, 0.1, 0.75)
"""Of the runs that go to the second core."""

STEPS = 7
PROFILED = 10
SEED = 0


@dataclass(frozen=True)
class Drawn:
    """A placer that draws: runs of consecutive ops on random devices.

    Attributes:
        length: ops of a run; 0 for one device alone.
        draw: which of the placements with such runs.
    """

    name: ClassVar[str] = "drawn-runs"
    summary: ClassVar[str] = "runs of consecutive ops on random devices"

    length: int = 0
    draw: int = 0

    def place(
        self,
        problem: StepProblem,
        box: Box,
        evaluator: StepEvaluator,
        request: PlacerRequest,
        progress: Callable[[str], None],
    ) -> PlacerAnswer:
        """Draws one."""
        from mcm_compiler.contracts.boxes.placers import PlacerAnswer

        rng = np.random.default_rng([SEED, self.length, self.draw])
        device = np.zeros(problem.num_ops, np.int32)
        if self.length:
            runs = -(-problem.num_ops // self.length)
            share = SHARES[self.draw % len(SHARES)]
            device = (rng.random(runs) < share).repeat(self.length)[: problem.num_ops]
        # Ops that run together follow the first of them, and inputs stay where they lie.
        first = np.unique(problem.together, return_index=True)[1]
        device = device[first[problem.together]].astype(np.int32)
        free = problem.allowed[np.arange(problem.num_ops), device]
        device[~free] = problem.allowed[~free].argmax(axis=1)
        return PlacerAnswer(device, "drawn", 0)


def measure(settings: Settings) -> list[Bar]:
    """The bar; of fewer placements where `settings.quick`."""
    import onnx_ir as ir

    from mcm_compiler.api import import_named
    from mcm_compiler.components.target_loading import package_from_text
    from mcm_compiler.placed.measured_times import profiled_seconds
    from mcm_compiler.registry import register_placer

    register_placer(Drawn)
    target: Any = package_from_text("two-cores", BOX)
    count = 8 if settings.quick else PLACEMENTS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, _ = import_named(MODEL, {}, {})
        ir.save(model, folder / "model.onnx")
        inputs = _inputs(folder / "model.onnx")
        seconds = profiled_seconds([_profile(folder / "model.onnx", inputs)])
        rows = [
            _row(folder, target, {target.box.kinds[0]: seconds}, inputs, place)
            for place in range(count)
        ]
    predicted, measured = np.array(rows).T
    return [
        median_bar("rank_correlation", [_spearman(predicted, measured)], 0.8, "above"),
        median_bar("measured_over_predicted", (measured / predicted).tolist(), 2.0),
    ]


def _row(
    folder: Path,
    target: Any,
    times: Mapping[str, Mapping[str, float]],
    inputs: Mapping[str, Any],
    place: int,
) -> tuple[float, float]:
    """Predicted and measured seconds of one placement."""
    from mcm_compiler.api import place_model
    from mcm_compiler.placed.place_options import PlaceOptions

    lengths = (0, *RUN_LENGTHS)
    length = lengths[place % len(lengths)]
    text = f"drawn-runs{{length={length},draw={place // len(lengths)}}}"
    out = folder / f"placed{place}"
    options = PlaceOptions(placer=text, times=times)
    place_model(folder / "model.onnx", target, options, output=out)
    schedule = json.loads((out / "schedule.json").read_text(encoding="utf-8"))
    run = _Steps(out, schedule, inputs)
    run.step()
    return schedule["seconds"], float(np.median([run.step() for _ in range(STEPS)]))


class _Steps:
    """The segments of a folder, each with a session, and a thread for each device."""

    def __init__(self, folder: Path, schedule: Any, inputs: Mapping[str, Any]) -> None:
        self._segments: Sequence[Any] = schedule["segments"]
        self._sessions = [_session(folder / s["file"]) for s in self._segments]
        self._devices = sorted({s["device"] for s in self._segments})
        self._inputs = inputs

    def step(self) -> float:
        """Seconds of one step."""
        made = {name: threading.Event() for s in self._segments for name in s["outputs"]}
        values = dict(self._inputs)

        def work(device: str) -> None:
            for segment, session in zip(self._segments, self._sessions, strict=True):
                if segment["device"] != device:
                    continue
                for name in segment["inputs"]:
                    if name in made:
                        made[name].wait()
                found = session.run(
                    segment["outputs"], {name: values[name] for name in segment["inputs"]}
                )
                values.update(zip(segment["outputs"], found, strict=True))
                for name in segment["outputs"]:
                    made[name].set()

        threads = [threading.Thread(target=work, args=(device,)) for device in self._devices]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start


def _inputs(model: Path) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    return {
        value.name: rng.standard_normal(value.shape).astype(np.float32)
        for value in _session(model).get_inputs()
    }


def _profile(model: Path, inputs: Mapping[str, Any]) -> Path:
    session = _session(model, str(model.with_name("run")))
    for _ in range(PROFILED):
        session.run(None, inputs)
    return Path(session.end_profiling())


def _session(path: Path, profile: str = "") -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _spearman(one: Any, other: Any) -> float:
    """Pearson's correlation of ranks; equal values share their mean rank."""

    def ranks(values: Any) -> Any:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2.0)[place]

    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
