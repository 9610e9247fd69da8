"""Placers that look at no graph: all on the CPU, or on the best single device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_passes.families.box.search.annealing import judge_of
from mcm_passes.families.box.search.units import fallbacks


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
