"""Levels that search what is divided: what they find, when they do not look, and what they say."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.partition import PARTITION, LowerBound
from mcm_compiler.contracts.program import SIMULATION
from mcm_compiler.contracts.replication import (
    DIVISION,
    REPLICATION,
    Division,
    PipelineCount,
    Replication,
)
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.pipeline.passes import parse_pipeline
from mcm_passes.parallelism.copies import copied_rounds
from mcm_passes.parallelism.divisions import comparison
from mcm_passes.parallelism.divisions.candidate import Periods
from mcm_passes.parallelism.divisions.comparison import FOR_MEMORY, gained_s
from mcm_passes.pipeline.parallelize import Parallelize

MODEL = "zoo:plain-cnn{image_size=32,stages=2,blocks=2,width=32}"
PASSES = "simplify,fuse,annotate_cost,{},partition,legalize,split,lower,simulate"
OPTIONS = CompileOptions(level=1, replicas=1, passes=PASSES.format("parallelize"))


def compiled(options: CompileOptions, text: str = "parallelize") -> tuple[Any, list[Any], float]:
    """The model with MCM-P071 and seconds per inference."""
    model, notes, _ = run_passes(MODEL, "mcm16", replace(options, passes=PASSES.format(text)))
    replicas = REPLICATION.get(model).replicas
    found = [note for note in notes if note.code == "MCM-P071"]
    return model, found, SIMULATION.get(model).period_s / replicas


def test_a_level_finds_a_division_and_the_note_repeats_it() -> None:
    whole, silent, whole_s = compiled(OPTIONS, "parallelize{search=false}")
    model, (note,), divided_s = compiled(OPTIONS)
    assert not silent
    assert DIVISION.get(whole) == Division()
    assert divided_s <= 0.99 * whole_s
    text = note.message.split("`")[1]
    (step,) = parse_pipeline(text)
    assert isinstance(step, Parallelize)
    assert step.division == DIVISION.get(model) != Division()
    _, silent, again_s = compiled(OPTIONS, text)
    assert not silent
    assert again_s == divided_s
    assert "MCM-P071" in catalog()


@pytest.mark.parametrize(
    "options",
    [
        replace(OPTIONS, level=0),
        replace(OPTIONS, objective="latency"),
        replace(OPTIONS, replicas=None, objective="latency"),
        replace(OPTIONS, pins=(("*", 0),)),
        replace(OPTIONS, round=2),
    ],
)
def test_nothing_is_searched_where_it_may_not_be(options: CompileOptions) -> None:
    model, notes, _ = compiled(options)
    assert not notes
    assert DIVISION.get(model) == Division()


def test_the_least_latency_is_sought_over_divisions() -> None:
    def found(text: str) -> tuple[Any, list[Any]]:
        passes = f"simplify,fuse,annotate_cost,{text},partition"
        options = CompileOptions(level=2, objective="latency", passes=passes)
        model, notes, _ = run_passes("zoo:vgg19{shape_only=true}", "mcm16", options)
        return model, [note for note in notes if note.code == "MCM-P071"]

    whole, silent = found("parallelize{search=false}")
    model, (note,) = found("parallelize")
    assert not silent
    assert DIVISION.get(model) != Division()
    assert "a latency of" in note.message
    before, after = PARTITION.get(whole).figures, PARTITION.get(model).figures
    assert before is not None
    assert after is not None
    assert after.bound <= after.value <= 0.75 * before.value
    assert "walked" in PARTITION.get(model).strategy
    again, silent = found(note.message.split("`")[1])
    assert not silent
    assert PARTITION.get(again).figures == after


def test_a_limit_that_the_whole_misses_is_kept_by_a_division() -> None:
    passes = "simplify,fuse,annotate_cost,{},partition"
    options = CompileOptions(level=2, max_latency_s=0.0075, passes=passes.format("parallelize"))
    network = "zoo:vgg19{shape_only=true}"
    model, notes, _ = run_passes(network, "mcm16", options)
    (note,) = [note for note in notes if note.code == "MCM-P071"]
    found = PARTITION.get(model).figures
    assert found is not None
    assert found.latency_s is not None
    assert found.latency_s <= 0.0075
    assert found.bound <= found.value
    again, _, _ = run_passes(
        network, "mcm16", replace(options, passes=passes.format(note.message.split("`")[1]))
    )
    assert PARTITION.get(again).figures == found
    loose = replace(options, max_latency_s=0.015)
    assert DIVISION.get(run_passes(network, "mcm16", loose)[0]) == Division()


def test_replicas_near_the_work_of_each_chip_are_not_divided() -> None:
    model, notes, _ = compiled(replace(OPTIONS, replicas=None))
    assert not notes
    assert DIVISION.get(model) == Division()
    assert REPLICATION.get(model).replicas == 16


def test_a_division_is_carried_as_options() -> None:
    division = Division(0.5, 0, 0.25)
    assert str(Parallelize().divided_as(division)) == (
        "parallelize{fraction=0.5,grain=0.25,search=false}"
    )
    # Options that were given stay.
    assert Parallelize(grain=0.5).divided_as(division) == Parallelize(grain=0.5)


@pytest.mark.parametrize(
    ("divided_s", "whole_s", "least_s", "searches", "wins"),
    [
        (98.0, 100.0, 50.0, False, True),
        (99.5, 100.0, 50.0, False, False),
        (98.0, 100.0, 50.0, True, False),  # a search may find as much for the whole
        (93.0, 100.0, 50.0, True, True),
        (98.0, 100.0, 99.5, True, True),  # proven: it cannot
        (98.0, float("inf"), 50.0, True, True),
    ],
)
def test_gains(
    divided_s: float, whole_s: float, least_s: float, searches: bool, wins: bool
) -> None:
    whole = Periods(whole_s, whole_s, least_s)
    assert (divided_s <= gained_s(whole, searches=searches)) is wins


class _Fake(SimpleNamespace):
    """A candidate with given periods."""

    def __init__(self, seconds: float, least_s: float) -> None:
        super().__init__(
            periods=Periods(seconds, seconds, least_s),
            compared=Replication(1, 4, (PipelineCount(1, 4, bound=LowerBound(least_s, "")),)),
            problem=SimpleNamespace(num_units=1),
            context=SimpleNamespace(options=CompileOptions(level=2)),
            division=Division(grain=0.5),
            **{"fastest": None, "notes": [], "step": "parallelize{grain=0.5}"},
        )


@pytest.mark.parametrize(
    ("least_s", "searched_s", "asked", "wins"),
    [
        (95.0, 0.0, 0, True),  # proven: no partition of the whole is as fast
        (80.0, 90.0, 1, True),
        (80.0, 89.0, 1, False),  # the search finds one that is
    ],
)
def test_a_division_is_faster_than_the_whole_once_searched(
    monkeypatch: pytest.MonkeyPatch, least_s: float, searched_s: float, asked: int, wins: bool
) -> None:
    def total_work(_: Any) -> LowerBound:
        return LowerBound(50.0, "")

    monkeypatch.setattr(comparison, "total_work", total_work)
    searches: list[float] = []
    whole: Any = _Fake(100.0, least_s)
    divided: Any = _Fake(89.0, 70.0)
    best = comparison.faster(
        whole,
        {divided.division: divided}.__getitem__,  # the finer one, which gains little, is not built
        lambda: [(80.0, divided.division), (88.5, Division(grain=0.1))],
        lambda: searches.append(searched_s) or searched_s,
        most=2,
    )
    assert len(searches) == asked
    assert (best is divided) is wins


def test_a_round_has_to_undercut_other_divisions_by_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []

    def fastest_round(*given: Any) -> None:
        limits.append(given[-1])

    def faster(whole: Any, *_: Any) -> None:
        limits.clear()
        divided = replace(whole, below_s=1.0)
        assert divided.fastest is None

    monkeypatch.setattr(copied_rounds, "fastest_round", fastest_round)
    monkeypatch.setattr(comparison, "faster", faster)
    options = CompileOptions(level=2, passes="simplify,fuse,annotate_cost,parallelize")
    run_passes("zoo:gpt2{layers=1,shape_only=true}", "mcm16", options)
    assert limits[0] == 1.0


@pytest.mark.parametrize("level", [1, 2])
def test_few_rows_are_tried_where_nothing_fits(tmp_path: Path, level: int) -> None:
    text = load_target("simba36").source_text
    path = tmp_path / "small.toml"
    path.write_text(
        text.replace("sram_mib = 2", "sram_mib = 0.4").replace("[6, 6]", "[2, 2]"), encoding="utf-8"
    )
    passes = "simplify,fuse,annotate_cost,parallelize"
    options = CompileOptions(level=level, replicas=1, round=1, passes=passes)
    network = "zoo:plain-cnn{image_size=64,stages=2,blocks=1,width=64}"
    model, notes, _ = run_passes(network, str(path), options)
    assert DIVISION.get(model) == (FOR_MEMORY if level > 1 else Division())
    assert ("MCM-P071" in {note.code for note in notes}) is (level > 1)


@pytest.mark.parametrize(
    ("rounds_s", "whole_s", "wanted"),
    [
        ({1: 1.0, 4: 3.6, 8: 6.4}, inf, 8),
        ({1: 1.0, 4: 3.6, 8: 7.2}, inf, 4),
        ({1: 1.0, 4: 3.99, 8: 1.0}, inf, 1),  # what gains little is not looked for further
        ({1: 1.0, 4: None, 8: 1.0}, inf, 1),
        ({1: inf, 4: 1.0, 8: 1.0}, inf, None),
        ({1: None, 4: 1.0, 8: 1.0}, inf, None),
        ({1: 1.0, 4: 3.6, 8: 6.4}, 0.81, 8),
        ({1: 1.0, 4: 3.6, 8: 6.4}, 0.80, None),  # nor taken
    ],
)
def test_streams_end_at_the_first_round_that_gains_little(
    rounds_s: dict[int, float | None], whole_s: float, wanted: int | None
) -> None:
    def build(division: Division, classes: int) -> Any:
        seconds = rounds_s[classes]
        if seconds is None:
            return None
        seconds *= 1.0 + 0.1 * comparison.FOR_STREAMS.index(division)
        periods, step = Periods(seconds, seconds, 0.0), f"{division.fraction} {classes}"
        return SimpleNamespace(division=division, periods=periods, step=step, wanted=2, notes=[])

    whole: Any = SimpleNamespace(periods=Periods(whole_s, whole_s, 0.0))
    found = comparison.streamed(whole, build)
    assert (None if found is None else found.step) == (wanted and f"0.145 {wanted}")
    if found is not None:
        assert f"--replicas 2 --round {wanted}" in found.notes[-1].message
