"""The placement that a human expert writes down: layers in order over the GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_passes.families.box.search.annealing import judge_of
from mcm_passes.families.box.search.units import STACKS, layered_placements


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
