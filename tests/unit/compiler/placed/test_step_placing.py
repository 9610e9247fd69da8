"""Searches that end well, and messages of those that do not."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placing import place_model
from tests.generators.placed_models import ByLetters, place_small, small_model


def _refused(**options: object) -> CompileError:
    with pytest.raises(CompileError) as caught:
        place_small(**options)  # pyright: ignore[reportArgumentType]
    return caught.value


def test_a_placement_has_its_time_its_bound_and_its_segments() -> None:
    placed = place_small()
    assert placed.seconds > 0
    assert placed.seconds >= placed.bound.seconds
    assert placed.results.fits[0]
    assert placed.trace.end_s.max() == pytest.approx(placed.seconds)
    assert placed.segments is not None
    assert placed.segments.seconds is not None
    assert placed.device_of_node == {
        f"op_{letter}": "gpu:0" if letter in "cd" else "cpu:0" for letter in "abrecdyz"
    }


def test_cheap_dispatches_cut_finer_than_dear_ones() -> None:
    cheap, dear = (place_small(dispatch_s=s).segments for s in (1e-12, 1.0))
    fewest = place_small(segments="fewest", dispatch_s=1.0).segments
    assert cheap is not None
    assert dear is not None
    assert fewest is not None
    assert dear.count == fewest.count <= cheap.count
    assert (cheap.seconds or 1.0) < (dear.seconds or 0.0)


@pytest.mark.parametrize(("wrong", "words"), [("short", "not for"), ("far", "letters")])
def test_an_answer_that_is_none_is_the_placers_fault(wrong: str, words: str) -> None:
    first = _refused(placer=f"letters{{wrong={wrong}}}").diagnostics[0]
    assert first.code == "MCM-D075"
    assert words in str(first)


@pytest.mark.parametrize("order", ["fifo", "critical_path"])
def test_placers_are_told_the_order_of_queues(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    asked: list[str] = []

    def place(self: ByLetters, request: Any) -> Any:
        asked.append(request.order)
        return by_letters(self, request)

    by_letters: Any = ByLetters.place
    monkeypatch.setattr(ByLetters, "place", place)
    place_small(order=order)
    assert asked == [order]


def test_an_answer_may_not_pass_over_pins() -> None:
    assert _refused(pins=(("op_c", "cpu:0"),)).diagnostics[0].code == "MCM-D075"


SMALL_GPU = """
family = "box"

[[device]]
kind = "haswell"

[[device]]
kind = "tiny"

[kind.tiny]
role = "gpu"
memory_mib = 1
reserved_memory_mib = 0.95
memory_bandwidth_gb_per_s = 100
peak_tflop_per_s = 1

[copy]
host_bandwidth_gb_per_s = 8
device_bandwidth_gb_per_s = 6
latency_us = 20
"""


def test_a_placement_that_does_not_fit_is_told_with_its_numbers(tmp_path: Path) -> None:
    box = tmp_path / "small.toml"
    box.write_text(SMALL_GPU)
    first = _refused(target=str(box), folder=tmp_path / "out").diagnostics[0]
    assert first.code == "MCM-D074"
    # What two products read and make there: more than 51.2 KiB.
    assert re.search(r"needs 1\d\d\.\d KiB on 'gpu:0', which has 51\.2 KiB", first.message)
    assert first.hint is not None
    assert "more devices or memory" in first.hint
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_an_unknown_placer_is_told_before_the_model_is_read() -> None:
    with pytest.raises(CompileError, match="MCM-U003"):
        place_model("nowhere.onnx", "box-2gpu", PlaceOptions(placer="nobody"))


@pytest.mark.parametrize("target", ["mcm36", "config-a"])
def test_what_is_no_box_is_refused(target: str) -> None:
    with pytest.raises(CompileError, match="MCM-D002"):
        place_model(small_model(), target, PlaceOptions(placer="letters"))


def test_an_existing_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(CompileError, match="MCM-A001"):
        place_small(tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_level_says_who_searches_and_how_long() -> None:
    asked = PlaceOptions(level=0)
    assert asked.placer_text == load_level(0).placer
    assert PlaceOptions(placer="letters{second=ab}").placer_text == "letters{second=ab}"
    with pytest.raises(CompileError, match="MCM-U003"):
        _ = PlaceOptions(level="nobody's").placer_text


def test_segments_that_one_device_beats_are_told() -> None:
    notes = place_small(dispatch_s=1.0).diagnostics
    assert [note.code for note in notes] == ["MCM-D076"]
    assert notes[0].severity is Severity.NOTE
    alone = place_small(placer="letters{second=q}", kinds=(("op_*", "haswell"),), dispatch_s=1.0)
    assert alone.segments is not None
    assert alone.segments.count == 1
    assert not alone.diagnostics


def test_a_file_is_a_level_of_placing_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('strategy = "dp"\nplacer = "letters{second=ab}"\nplacements = 7\n')
    placed = place_model(small_model(), "box-cpu-gpu", PlaceOptions(level=str(path)))
    # All placements of so small a step are simulated, whatever the level says.
    assert placed.answer.method.startswith("all ")
    assert PlaceOptions(level=str(path)).placer_text == "letters{second=ab}"
    assert load_level(str(path)).placements_of(1) == 7
    path.write_text('strategy = "dp"\nplacements = 0\n')
    with pytest.raises(CompileError, match="MCM-U002"):
        _ = PlaceOptions(level=str(path)).placer_text


SEARCHING = ("local_search", "portfolio", "pretrained")
BY_RULE = ("cpu", "single", "letters")


def least_of_all(problem: StepProblem, target: BoxTarget, order: Any) -> float:
    """The fastest placement that fits, one after another, of ops that run alone or together."""
    evaluator = target.step_evaluator(problem, StepConditions(order=order))
    homes = [
        [
            d
            for d in range(target.box.num_devices)
            if problem.allowed[problem.together == g, d].all()
        ]
        for g in range(problem.num_groups)
    ]
    best = math.inf
    for chosen in itertools.product(*homes):
        placement = np.array([chosen[g] for g in problem.together], np.int32)
        results = evaluator.evaluate(placement[None, :])
        if results.fits[0]:
            best = min(best, float(results.seconds[0]))
    return best


CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("box-cpu-gpu", {}),
    ("box-cpu-gpu", {"order": "critical_path", "pins": (("op_c", "gpu:0"),)}),
    ("box-2gpu", {"together": ("op_?",), "kinds": (("op_y", "k40"),)}),
)


@pytest.mark.parametrize(("target", "asked"), CASES)
def test_small_steps_are_enumerated_and_no_placer_delivers_worse(
    target: str, asked: dict[str, Any]
) -> None:
    best = place_model(small_model(), target, PlaceOptions(**asked))
    least = least_of_all(best.problem, best.target, best.options.order)
    assert best.seconds == best.bound.seconds == least
    assert best.gap == 0.0
    assert "placements, simulated" in best.bound.argument
    for placer in SEARCHING:
        options = PlaceOptions(placer=placer, evaluations=20, **asked)
        found = place_model(small_model(), target, options)
        assert (found.seconds, found.gap) == (least, 0.0), placer


@pytest.mark.parametrize("placer", BY_RULE)
def test_a_placer_by_a_rule_is_compared_with_all_placements(placer: str) -> None:
    found = place_model(small_model(), "box-cpu-gpu", PlaceOptions(placer=placer))
    least = least_of_all(found.problem, found.target, "fifo")
    assert found.bound.seconds == least <= found.seconds
    assert found.gap == pytest.approx(found.seconds / least - 1.0)


def test_a_placer_that_searches_delivers_no_worse() -> None:
    options = PlaceOptions(placer="pretrained", evaluations=4, segments="none")
    found = place_model(small_model(), "box-cpu-gpu", options)
    assert (found.seconds, found.gap) == (least_of_all(found.problem, found.target, "fifo"), 0.0)


def test_large_steps_are_not_enumerated() -> None:
    found = place_model("zoo:bert-tiny", "box-2gpu", PlaceOptions(placer="single"))
    assert "simulated" not in found.bound.argument
