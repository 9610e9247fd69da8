"""The placement that a human expert writes down: layers in order over the GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_passes.families.box.clusters.adjacency import edge_bytes, fastest_times, quotient
from mcm_passes.families.box.clusters.weight_clusters import SMALL_BYTES, spread_along
from mcm_passes.families.box.search.judge import judge_of
from mcm_passes.families.box.search.starts import device_speeds, fast_devices
from mcm_passes.families.box.search.units import fallbacks


@dataclass(frozen=True)
class Expert:
    """Layers in order over the fast devices, as many on each, in one stack or in two.

    What experts did for recurrent networks (Wu et al. 2016, *Google's Neural Machine Translation
    System*, section 3.2; Mirhoseini et al. 2018, section 4): each layer on a GPU of its own, the
    embedding with the first, softmax and loss with the last. An encoder and a decoder each use all
    devices; as names do not tell how many stacks there are, the better of both is taken. Ops whose
    names tell no layer go with the nearest op of a known layer, updates with their variables.
    """

    name: ClassVar[str] = "expert"
    summary: ClassVar[str] = "layers in order over the fast devices, by names"

    def place(
        self,
        problem: StepProblem,
        box: Box,
        evaluator: StepEvaluator,
        request: PlacerRequest,
        progress: Callable[[str], None],
    ) -> PlacerAnswer:
        """Simulates two placements.

        Raises:
            CompileError: MCM-D050 where no op has a layer.
        """
        progress("layers in order")
        layer = layers_of_all(problem)
        speeds = device_speeds(fastest_times(problem, box), problem.time_s, box.kind_of)
        fast = fast_devices(speeds)
        count, ways = int(layer.max()) + 1, fallbacks(problem, box)
        judge = judge_of((evaluator,), request)
        scores: list[float] = []
        for stacks in (1, 2):
            turn = layer.astype(np.int64) * (stacks * len(fast)) // count
            scores.append(judge.score(ways.placement(fast[turn % len(fast)])))
        stacks = int(np.argmin(scores)) + 1
        return judge.answer(f"{count} layers in {stacks} stacks over {len(fast)} devices")


def layers_of_all(problem: StepProblem) -> Ints:
    """`[N]`, layer of each op, those without one by the nearest op that has one.

    Raises:
        CompileError: MCM-D050 where no op has a layer.
    """
    known = np.flatnonzero(problem.layer >= 0)
    if not len(known):
        raise CompileError(
            Diagnostic(
                "MCM-D050",
                "no op's name tells which layer it belongs to",
                at="placer expert",
                hint="name scopes like layer.0 in the model, or choose another placer",
            )
        )
    count = problem.num_ops
    graph = quotient(problem.edges, edge_bytes(problem), np.arange(count), count)
    nearest = spread_along(graph, known, SMALL_BYTES)
    layer = np.where(nearest >= 0, problem.layer[known[nearest]], 0)
    first = np.unique(problem.together, return_index=True)[1]
    return layer[first[problem.together]].astype(np.int32)
