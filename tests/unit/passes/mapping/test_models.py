"""Mappings of families of machines, found by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from acme_mesh.targets import mesh16

from mcm_compiler.contracts.partition import LowerBound, PartitionProblem
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import RING
from mcm_compiler.registry import MAPPINGS
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.any_machine import ANY_MACHINE, AnyMachine
from mcm_passes.mapping.models import mapping_for
from tests.acme_mesh.tests.random_meshes import mesh_case


class OwnArgument(AnyMachine):
    """A family that knows one more argument."""

    def bound(self, problem: PartitionProblem, known: LowerBound) -> LowerBound:
        return LowerBound(known.seconds * 2.0, "twice as long", "acme")


@pytest.fixture
def own() -> Iterator[OwnArgument]:
    mapping = OwnArgument()
    MAPPINGS.add("acme_mesh", mapping, "this test")
    yield mapping
    MAPPINGS.remove("acme_mesh")


def test_a_family_without_a_mapping_has_that_of_any_machine() -> None:
    assert mapping_for(mesh16().machine.family) is ANY_MACHINE


def test_a_ring_has_the_mapping_of_its_name() -> None:
    assert mapping_for(RING) is MAPPINGS.get("ring")
    assert mapping_for(RING) is not ANY_MACHINE


def test_the_mapping_of_a_plug_in_is_asked_for_its_family_alone(own: OwnArgument) -> None:
    assert mapping_for(mesh16().machine.family) is own
    assert mapping_for("acme_torus") is ANY_MACHINE


def test_arguments_of_a_family_are_weighed_with_those_of_every_machine(own: OwnArgument) -> None:
    problem = mesh_case(1).problem
    found = lower_bound(problem)
    MAPPINGS.remove("acme_mesh")
    assert found == LowerBound(lower_bound(problem).seconds * 2.0, "twice as long", "acme")


def test_without_rooms_for_rings_a_ring_is_an_unknown_mapping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MAPPINGS.get("ring")
    monkeypatch.setattr(MAPPINGS, "_registered", {})
    with pytest.raises(CompileError) as failure:
        mapping_for(RING)
    assert failure.value.diagnostics[0].code == "MCM-U003"
    assert "'ring'" in failure.value.diagnostics[0].message
