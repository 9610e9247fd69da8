"""Plug-in: devices of weights from a placement of another version, then local search.

    mcmc place m.onnx --plugin FOLDER/transfer.py --placer 'transfer{weights=old.json}'

No record has it ahead of the portfolio, so that the compiler itself is without it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mcm_compiler import register
from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.diagnostics import CompileError, quote
from mcm_passes.families.box.clusters.weight_clusters import fastest_times, quotient, spread
from mcm_passes.families.box.placers import LocalSearch, RobustScore
from mcm_passes.families.box.search.units import fallbacks


@register("placer")
@dataclass(frozen=True)
class Transfer:
    """Ops go where their nearest weight is in another placement; local search goes on from there.

    A network that is unrolled over fewer steps has the same weights: its placements are found in
    a fraction of the time, and show where weights belong.

    Attributes:
        weights: path of a JSON file, an object of names of weights and of devices.
        robust: see `LocalSearch`.
    """

    name: ClassVar[str] = "transfer"
    summary: ClassVar[str] = "devices of weights from another placement, then local search"
    searches: ClassVar[bool] = True

    weights: str = ""
    robust: bool = True

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Scores the placement that is carried over, and searches on.

        Raises:
            CompileError: MCM-U002 for a file that cannot be used.
        """
        carried = carried_over(request.problem, request.box, _read(self.weights))
        request.progress("devices of weights carried over")
        judge = RobustScore(robust=self.robust).judge(request)
        start = judge.score(carried)
        left = judge.left
        if left < 1:
            return judge.answer("carried over", ("start", start))
        rest = replace(request, evaluations=left, start=judge.best)
        answer = LocalSearch(robust=self.robust).place(rest)
        return replace(
            answer,
            method=f"carried over, then {answer.method}",
            evaluations=answer.evaluations + judge.evaluations,
            history=tuple((judge.evaluations + n, score) for n, score in answer.history),
            figures=(*answer.figures, ("start", start)),
        )


def carried_over(problem: StepProblem, box: Box, devices: dict[str, str]) -> Ints:
    """`[N]`, each op on the device of the nearest weight that is named.

    Raises:
        CompileError: MCM-U002 where no weight is, or a device is unknown.
    """
    unknown = sorted({name for name in devices.values() if name not in box.devices})
    if unknown:
        raise _unusable(f"device {quote(unknown[0])} is none of this box")
    wanted: dict[int, int] = {}
    for v, name in enumerate(problem.value_names):
        if name in devices and (op := int(problem.holder[v])) >= 0:
            wanted[op] = box.devices.index(devices[name])
    if not wanted:
        raise _unusable("no weight of this model is named")
    seeds = np.array(sorted(wanted), np.int64)
    count = problem.num_ops
    graph = quotient(problem.edges, np.ones(len(problem.edges)), np.arange(count), count)
    nearest = spread(graph.begin, graph.other, seeds)
    of_seed = np.array([wanted[int(op)] for op in seeds], np.int32)
    # What no named weight reaches goes where it runs fastest.
    times = fastest_times(problem, box)[:, None] < problem.time_s[:, box.kind_of]
    place = np.where(nearest >= 0, of_seed[nearest], times.argmin(axis=1))
    return fallbacks(problem, box).placement(place[problem.leader[problem.together]])


def _read(path: str) -> dict[str, str]:
    if not path:
        raise _unusable("the option 'weights' names no file")
    try:
        data: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unusable(f"{quote(path)} cannot be read as JSON") from error
    if not isinstance(data, dict):
        raise _unusable(f"{quote(path)} holds no object")
    named: dict[Any, Any] = data
    if not all(isinstance(name, str) for name in named.values()):
        raise _unusable(f"{quote(path)} holds other things than names of devices")
    return named


def _unusable(message: str) -> CompileError:
    return CompileError.of(
        "MCM-U002",
        message,
        at="placer transfer, option weights",
        hint="give a JSON object of names of weights of this model and of devices of this host",
    )
