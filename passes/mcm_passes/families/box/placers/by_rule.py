"""Placers that follow a rule, and a rival: list scheduling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_passes.families.box.search.annealing import judge_of
from mcm_passes.families.box.search.units import STACKS, fallbacks, layered_placements


@dataclass(frozen=True)
class Cpu:
    """All ops on the host; those that it may not run where they run fastest."""

    name: ClassVar[str] = "cpu"
    summary: ClassVar[str] = "all ops on the host"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates one placement."""
        problem, box, judge = request.problem, request.box, judge_of(request)
        request.progress("all on the host")
        judge.score(fallbacks(problem, box).placement(np.full(problem.num_ops, box.host)))
        return judge.answer("all on the host")


@dataclass(frozen=True)
class Single:
    """All ops on one device, the best one; those that it may not run where they run fastest."""

    name: ClassVar[str] = "single"
    summary: ClassVar[str] = "all ops on one device, the best"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates one placement for each device; of equal ones the first."""
        problem, box, judge = request.problem, request.box, judge_of(request)
        request.progress("all on one device, each in turn")
        ways = fallbacks(problem, box)
        scores = [
            judge.score(ways.placement(np.full(problem.num_ops, device)))
            for device in range(box.num_devices)
        ]
        return judge.answer(f"all on {box.devices[int(np.argmin(scores))]}")


@dataclass(frozen=True)
class Expert:
    """Layers in order over the fast devices, as many on each, in one stack or in two.

    Experts placed recurrent networks so (Wu et al. 2016, *Google's Neural Machine Translation
    System*, section 3.2; Mirhoseini et al. 2018, section 4). Each layer is on a GPU of its own, the
    embedding with the first, softmax and loss with the last. An encoder and a decoder each use all
    devices. Names do not show how many stacks there are, so the better of both is taken. Ops whose
    names have no layer go with the nearest op of a known layer, updates with their variables.
    """

    name: ClassVar[str] = "expert"
    summary: ClassVar[str] = "layers in order over the fast devices, by names"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Simulates two placements.

        Raises:
            CompileError: MCM-D050 where no op has a layer.
        """
        request.progress("layers in order")
        placements = layered_placements(request.problem, request.box)
        judge = judge_of(request)
        scores = [judge.score(placement) for placement in placements]
        stacks = STACKS[int(np.argmin(scores))]
        layers = int(request.problem.layer.max()) + 1
        return judge.answer(f"{layers} layers, in {stacks} stacks over the fast devices")
