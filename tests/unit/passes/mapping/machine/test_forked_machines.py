"""Search on machines over whose devices no walk leads without a jump."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget
from mcm_compiler.placements.machine_rules import find_placement_violations
from mcm_hardware.families.package.package_target import TopologyPackage, mesh36
from mcm_passes.mapping.machine.any_machine import ANY_MACHINE
from mcm_passes.mapping.models import periods_of
from mcm_passes.mapping.search.named import strategy_of
from tests.acme_mesh.tests.random_meshes import mesh_case

STAR = [(0, 1), (0, 2), (0, 3), (0, 4)]
TREE = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)]


@pytest.mark.parametrize("forwarding", ["engine", "router"])
@pytest.mark.parametrize("pairs", [STAR, TREE], ids=["star", "tree"])
@pytest.mark.parametrize("strategy", ["dp", "local_search"])
def test_what_is_found_has_no_circle(pairs, forwarding, strategy):
    """Everything fits on one chip, so that there is a placement."""
    links = [list(link) for a, b in pairs for link in ((a, b), (b, a))]
    head, _, rest = mesh36().source_text.partition("[topology]")
    package = TopologyPackage.from_text(
        "forked",
        f'{head}[topology]\nkind = "links"\nlinks = {links}\nforwarding = "{forwarding}"\n'
        f"virtual_channels = 4\n{rest[rest.index('[chip]') :]}",
    )
    few = mesh_case(2, shape=(1, 2), units=9).problem
    problem = replace(few, limits=package.limits, given_machine=package.machine)
    search = ANY_MACHINE.adapted(strategy, strategy_of(strategy)) or strategy_of(strategy)
    budget, rng = Budget(evaluations=500), np.random.default_rng(0)
    found = search.solve(problem, periods_of(problem), rng, budget)
    assert found.chip_of is not None
    assert not find_placement_violations(problem, found.chip_of)
