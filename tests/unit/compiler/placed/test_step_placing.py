"""Searches that end well, and what is told of those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcm_compiler.api import place_model
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.place_options import PlaceOptions
from tests.generators.placed_models import place_small, small_model


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


@pytest.mark.parametrize(("wrong", "words"), [("short", "not for"), ("far", "told")])
def test_an_answer_that_is_none_is_the_placers_fault(wrong: str, words: str) -> None:
    first = _refused(placer=f"told{{wrong={wrong}}}").diagnostics[0]
    assert first.code == "MCM-D075"
    assert words in str(first)


def test_an_answer_may_not_pass_over_pins() -> None:
    assert _refused(pins=(("op_c", "cpu:0"),)).diagnostics[0].code == "MCM-D075"


SMALL_BOX = """
family = "box"

[[kind]]
name = "tiny"
class = "gpu"
peak_tflop_per_s = 1
memory_bandwidth_gb_per_s = 100
memory_mib = 0.0625
launch_overhead_us = 1

[[device]]
kind = "tiny"
count = 2

[copy]
host_bandwidth_gb_per_s = 8
device_bandwidth_gb_per_s = 6
latency_us = 20
"""


def test_an_unknown_placer_is_told_before_the_model_is_read() -> None:
    with pytest.raises(CompileError, match="MCM-U003"):
        place_model("nowhere.onnx", "box-2gpu", PlaceOptions(placer="nobody"))


@pytest.mark.parametrize("target", ["mcm36", "config-a"])
def test_what_is_no_box_is_refused(target: str) -> None:
    with pytest.raises(CompileError, match="MCM-D002"):
        place_model(small_model(), target, PlaceOptions(placer="told"))


def test_an_existing_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(CompileError, match="MCM-A001"):
        place_small(tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
