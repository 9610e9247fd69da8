"""How well the simulated time of a step tells the measured one, where devices are cores.

A box of two cores, one thread each. Times of ops come from onnxruntime's profile of the model on
one core (`mcmc place --profile`); what a dispatch and a handover between threads take is measured
apart from what is predicted. Placements are drawn: runs of consecutive ops go to random
cores, in equal or unequal shares, some with many short runs and some with few long ones; each
placement once. Each is written as a folder, and its segments run as its schedule says: a thread for
each core starts a segment as soon as all its inputs are there. What is predicted is the time of
the step in segments, dispatches and handovers included. Steps of all placements run by turns; what
is measured is the median of those whose threads waited least for a core.

`rank_correlation` is Spearman's, over all placements. `rank_correlation_of_work` is the same with
steps put together from CPU times of their segments, which other work on the machine hardly
changes. `repeatability` compares the medians of every other step: what is below the bar there can
be told by no prediction, and the machine is too busy. `measured_over_predicted` and
`work_over_predicted` are ratios for each.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness.bars import Bar, median_bar
from harness.command_line import Settings, run_script
from prediction_cases.core_calibration import dispatch_seconds, handover_seconds
from prediction_cases.drawn_runs import Drawn, likeness
from prediction_cases.segment_runs import (
    SegmentRuns,
    StepTimes,
    delayed_seconds,
    put_together,
    session_of,
)

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
latency_us = {latency_us:.3f}
"""

PLACEMENTS = 30
RUN_LENGTHS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
MOST_DRAWS = 20
"""Of each length; longer runs leave few different placements."""

CALIBRATION_DRAW = 10_000
"""Of the placement that a dispatch is measured on; none that is predicted."""

ROUNDS = 30
QUIETEST = 1 / 3
"""Of the steps, those whose threads waited least for a core."""

PROFILES = 24
PROFILED = 3
"""Profiles, and runs in each."""

SEED = 0


def measure(settings: Settings) -> list[Bar]:
    """The bars; of fewer placements and steps where `settings.quick`."""
    import onnx_ir as ir

    from mcm_compiler.api import import_named
    from mcm_compiler.placed.profiles import profiled_seconds
    from mcm_compiler.registry import register

    register("placer")(Drawn)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, _ = import_named(MODEL, {}, {})
        ir.save(model, folder / "model.onnx")
        inputs = _inputs(folder / "model.onnx")
        seconds = profiled_seconds(_profiles(folder / "model.onnx", inputs))
        bench = _Bench(folder, seconds, inputs)
        bench.calibrate()
        count = 8 if settings.quick else PLACEMENTS
        placed = bench.drawn(count)
        rounds = settings.repetitions * (2 if settings.quick else ROUNDS // 5)
        steps = _steps([runs for runs, _ in placed], rounds)
    predicted = np.array([seconds for _, seconds in placed])
    measured, first, second = (
        np.array([_quiet(own[part]) for own in steps])
        for part in (slice(None), slice(0, None, 2), slice(1, None, 2))
    )
    work = np.array(
        [
            put_together(
                runs.segments,
                np.median([step.work_s for step in own], axis=0).tolist(),
                bench.handover_s,
            )
            for (runs, _), own in zip(placed, steps, strict=True)
        ]
    )
    print(
        f"dispatch {bench.dispatch_s * 1e6:.1f} us, handover {bench.handover_s * 1e6:.1f} us; "
        f"predicted {predicted.min() * 1e3:.2f} to {predicted.max() * 1e3:.2f} ms",
        file=sys.stderr,
    )
    return [
        median_bar("rank_correlation", [_spearman(predicted, measured)], 0.8, "above"),
        median_bar("rank_correlation_of_work", [_spearman(predicted, work)], 0.8, "above"),
        median_bar("repeatability", [_spearman(first, second)], 0.8, "above"),
        median_bar("measured_over_predicted", (measured / predicted).tolist(), 2.0),
        median_bar("work_over_predicted", (work / predicted).tolist(), 1.2),
    ]


class _Bench:
    """A model with measured times of ops, and the box of two cores as far as it is known."""

    def __init__(self, folder: Path, times: Mapping[str, float], inputs: Mapping[str, Any]) -> None:
        self._folder, self._times, self._inputs = folder, times, inputs
        self.dispatch_s = 0.0
        self.handover_s = 0.0

    def calibrate(self) -> None:
        """Measures dispatches and handovers."""
        whole, _ = self._runs(self._placed(0, 0))
        cut, _ = self._runs(self._placed(1, CALIBRATION_DRAW))
        self.dispatch_s = dispatch_seconds(whole, cut)
        self.handover_s = handover_seconds()

    def drawn(self, count: int) -> list[tuple[SegmentRuns, float]]:
        """So many different placements with their predicted seconds."""
        found: list[tuple[SegmentRuns, float]] = []
        known: set[Any] = set()
        for draw in range(MOST_DRAWS):
            for length in RUN_LENGTHS:
                if len(found) == count:
                    return found
                runs, schedule = self._runs(self._placed(length, draw))
                like = likeness(schedule)
                if like not in known:
                    known.add(like)
                    found.append((runs, schedule["seconds"]))
        return found

    def _placed(self, length: int, draw: int) -> Path:
        from mcm_compiler.components.target_loading import package_from_text
        from mcm_compiler.placed.place_options import PlaceOptions
        from mcm_compiler.placed.placing import place_model

        text = BOX.format(latency_us=self.handover_s * 1e6)
        target: Any = package_from_text("two-cores", text)
        out = self._folder / f"placed-{length}-{draw}"
        options = PlaceOptions(
            placer=f"drawn-runs{{length={length},draw={draw}}}",
            times={target.box.kinds[0]: self._times},
            dispatch_s=self.dispatch_s,
        )
        if not out.exists():
            place_model(self._folder / "model.onnx", target, options, output=out)
        return out

    def _runs(self, folder: Path) -> tuple[SegmentRuns, Any]:
        schedule = json.loads((folder / "schedule.json").read_text(encoding="utf-8"))
        return SegmentRuns(folder, schedule, self._inputs), schedule


def _steps(placed: Sequence[SegmentRuns], rounds: int) -> list[list[StepTimes]]:
    """Steps of each, by turns, in another order in each round."""
    rng = np.random.default_rng(SEED)
    for runs in placed:
        runs.step()
    found: list[list[StepTimes]] = [[] for _ in placed]
    for _ in range(rounds):
        for k in rng.permutation(len(placed)).tolist():
            found[k].append(placed[k].step())
    return found


def _quiet(steps: Sequence[StepTimes]) -> float:
    """The median of the steps whose threads waited least for a core."""
    count = max(int(len(steps) * QUIETEST), 1)
    least = sorted(steps, key=lambda step: step.delayed_s)[:count]
    return float(np.median([step.seconds for step in least]))


def _inputs(model: Path) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    return {
        value.name: rng.standard_normal(value.shape).astype(np.float32)
        for value in session_of(model).get_inputs()
    }


def _profiles(model: Path, inputs: Mapping[str, Any]) -> list[Path]:
    """Profiles of the model, those in which the thread waited least for a core."""
    found: list[tuple[float, Path]] = []
    for number in range(PROFILES):
        session = session_of(model, str(model.with_name(f"run{number}")))
        waited = delayed_seconds()
        for _ in range(PROFILED):
            session.run(None, inputs)
        found.append((delayed_seconds() - waited, Path(session.end_profiling())))
    return [path for _, path in sorted(found)[: max(int(PROFILES * QUIETEST), 1)]]


def _spearman(one: Any, other: Any) -> float:
    """Pearson's correlation of ranks; equal values share their mean rank."""

    def ranks(values: Any) -> Any:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2.0)[place]

    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
