"""Collections depend on their seed alone, go on where they were stopped, and refuse others'."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.legality import faults_of_mapping
from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_compiler.diagnostics import CompileError
from mcm_models.mapping_model.data_set import FORMULA, RANDOM
from mcm_passes.families.fabric.learning.collecting import CollectionSize, collect
from tests.generators.mapping_target import RuleJudge, RuleTarget

SIZE = CollectionSize(graphs=12, drawn=2, searched=1, fewest=2, units=4, contrast=1.0)


def _code(target: RuleTarget, folder: Path, size: CollectionSize = SIZE, seed: int = 0) -> str:
    with pytest.raises(CompileError) as caught:
        collect(target, size, seed, folder, lambda *_: None)
    return caught.value.diagnostics[0].code


def test_a_collection_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    def tell(graphs: int, left_out: int) -> None:
        told.append((graphs, left_out))

    whole = collect(RuleTarget(), SIZE, 0, tmp_path / "a", tell)
    assert told == [(10, 0), (12, 0)]
    assert whole.measurements == 36
    first = tmp_path / "b" / "graphs-00000.npz"
    first.parent.mkdir()
    first.write_bytes((tmp_path / "a" / first.name).read_bytes())
    collect(RuleTarget(), SIZE, 0, tmp_path / "b", tell)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_graphs_hold_what_was_asked_for(tmp_path: Path) -> None:
    data = collect(RuleTarget(), SIZE, 1, tmp_path, lambda *_: None)
    assert {graph.family for graph in data.graphs} == {"gemm", "mlp", "ffn", "mha"}
    for graph in data.graphs:
        assert graph.origin.tolist() == [RANDOM, RANDOM, FORMULA]
        assert faults_of_mapping(graph.problem, data.fabric, graph.mappings) == []
        assert (graph.period_cycles >= graph.bound_cycles).all()
    searched = [graph.period_cycles[2] < graph.period_cycles[:2].mean() for graph in data.graphs]
    assert np.mean(searched) > 0.7


def test_collections_of_other_targets_and_seeds_are_refused(tmp_path: Path) -> None:
    collect(RuleTarget(), SIZE, 0, tmp_path, lambda *_: None)
    assert _code(RuleTarget(lowering="other"), tmp_path) == "MCM-M057"
    assert _code(RuleTarget(), tmp_path, seed=1) == "MCM-M057"


def test_a_judge_that_measures_what_cannot_be_is_found_out(tmp_path: Path) -> None:
    assert _code(RuleTarget(factor=0.5), tmp_path / "a") == "MCM-M056"
    assert _code(RuleTarget(factor=np.nan), tmp_path / "b") == "MCM-M056"


def test_blocks_that_never_suit_are_told_of(tmp_path: Path) -> None:
    for size in (
        CollectionSize(graphs=8, fewest=2, contrast=1e9),
        CollectionSize(graphs=8, fewest=2, longest=50),
        CollectionSize(graphs=8, fewest=1000),
    ):
        assert _code(RuleTarget(), tmp_path, size) == "MCM-M061"


@pytest.mark.parametrize("drawn", [range(3), range(12), range(10)])
def test_blocks_that_cannot_be_measured_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: range
) -> None:
    """Of the blocks of some numbers no sample ends; with all ten, the first file has none."""
    whole = collect(RuleTarget(), SIZE, 0, tmp_path / "a", lambda *_: None)
    endless = {whole.graphs[k].bound_cycles for k in drawn}
    measure, plays = RuleJudge.measure, []

    def slowly(self: RuleJudge, problem, fabric, mappings) -> Measurements:
        found = measure(self, problem, fabric, mappings)
        plays.append(len(mappings))
        if self.bound_cycles(problem, fabric) not in endless:
            return found
        return replace(found, period_cycles=np.full(len(mappings), np.inf))

    monkeypatch.setattr(RuleJudge, "measure", slowly)
    left = [graph for graph in whole.graphs if graph.bound_cycles not in endless]
    told: list[tuple[int, int]] = []
    for _ in range(2):  # the second time from its files
        data = collect(RuleTarget(), SIZE, 0, tmp_path / "b", lambda *made: told.append(made))
        assert [graph.bound_cycles for graph in data.graphs] == [g.bound_cycles for g in left]
        assert len(data.graphs) + data.left_out == 12
    assert told[1] == told[3] == (12, data.left_out)
    # One play tells of a block that it cannot be measured, and others have three.
    assert sum(plays) == 3 * len(left) + data.left_out
    assert _code(RuleTarget(), tmp_path / "b", replace(SIZE, graphs=11)) == "MCM-M057"
