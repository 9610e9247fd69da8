"""A cost model: every kernel takes twice as long as the target says."""

from dataclasses import dataclass, replace
from types import SimpleNamespace as Costs

from mcm_compiler import CostBasis, CostModelMaker, register


@register("cost-model")
@dataclass(frozen=True)
class HalfSpeed(CostModelMaker):
    """The target's own times, doubled."""

    name, summary = "acme_half_speed", "every kernel takes twice as long"

    def make(self, basis: CostBasis) -> Costs:
        def group_cost(nodes: tuple) -> object:
            return replace(own := basis.played.group_cost(nodes), seconds=2 * own.seconds)

        return Costs(name=self.name, node_cost=lambda n: group_cost((n,)), group_cost=group_cost)
