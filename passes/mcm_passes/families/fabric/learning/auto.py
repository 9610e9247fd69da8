"""The mapping model `auto`: the winner of the recorded comparison of flows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, cast

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_compiler.contracts.fabrics.models import MappingModel, PreparedMappingModel
from mcm_compiler.registry import MAPPING_MODELS
from mcm_compiler.text import spec_text
from mcm_models.mapping_model.data_set import make_of

FLOWS = Path(__file__).with_name("flows.json")
"""The comparison that `lcm_placers.py --write` wrote: winner, target and figures."""


@dataclass(frozen=True)
class Auto:
    """The winner of the recorded comparison of flows, where it was made on such a target.

    A flow with coefficients that were fitted to measurements is used for the make of fabric, the
    lowering and the physics of its measurements; for others `auto` is the best flow without.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the model whose flow won the recorded comparison"

    def chosen_for(self, fabric: Fabric, lowering: str, physics: str) -> MappingModel:
        """See `mcm_compiler.contracts.fabrics.mappers.ChoosingMappingModel`."""
        found = recorded_flows()
        asked = {"make": make_of(fabric), "lowering": lowering, "physics": physics}
        same = all(found[name] == value for name, value in asked.items())
        text = found["winner" if same else "elsewhere"]
        return cast("MappingModel", MAPPING_MODELS.made(spec_text.parse_one(text)))

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedMappingModel:
        """Of a problem on a fabric, as on the target of the comparison."""
        found = recorded_flows()
        chosen = self.chosen_for(fabric, found["lowering"], found["physics"])
        return chosen.prepared(problem, fabric)


@cache
def recorded_flows() -> dict[str, Any]:
    """The contents of `FLOWS`."""
    return json.loads(FLOWS.read_text(encoding="utf-8"))
