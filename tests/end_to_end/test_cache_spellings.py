"""A cache stays on its chips in every spelling of attention, bit-identical over steps."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.artifact.layout import ANNOTATED
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.checking.entry.run_folder import run_folder
from mcm_compiler.checking.entry.structure_check import check_structure
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.replication import DIVISION, REPLICATION
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import run_model
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.options import CompileOptions
from mcm_models.zoo.llama import Llama
from mcm_passes.parallelism.divisions import division_search
from tests.generators.small_decoders import SPELLINGS, small_decoder

WIDE = {"hidden": 64, "heads": 4, "kv_heads": 2}

STEPS = "simplify,fuse,annotate_cost,parallelize"

STYLES = {"hf": {}, "genai": {"weights": "nbits", "experts": 3}, "attention": {"weights": "qdq"}}


def layer(spelling, past=15, **options):
    """With 16 numbers in keys and as many in values of a token."""
    if spelling in SPELLINGS:
        return small_decoder(spelling, past)
    size = {"layers": 1, "hidden": 32, "heads": 2, "kv_heads": 1, "intermediate": 32, "vocab": 20}
    return Llama(**{**size, **options}, positions=past + 1, past=past, style=spelling).build()


@pytest.mark.parametrize("spelling", [*SPELLINGS, *STYLES])
def test_the_cache_stays_on_its_chip_and_steps_are_bit_identical(spelling):
    options = CompileOptions(level=0, replicas=1, inferences=8)
    model = layer(spelling, **STYLES.get(spelling, {}))
    result = compile_model(model, "mcm4", options)
    held = {pair.present for chip in result.chips for pair in chip.states}
    assert held == {value.name for value in model.graph.outputs[1:]}
    assert result.verification.holds
    assert result.verification.steps == 8
    assert all(output.bit_equal for output in result.verification.outputs)
    assert not any("one run" in note.message for note in result.diagnostics)


def in_pieces(count):
    """Options whose pipeline cuts each cache by heads."""
    passes = CompileOptions().passes.replace(
        "parallelize", f"shard_oversized{{caches={count}}},parallelize"
    )
    return CompileOptions(level=0, replicas=1, inferences=8, passes=passes)


@pytest.mark.parametrize("spelling", [*SPELLINGS, *STYLES])
def test_a_cache_is_held_in_pieces_bit_identical(spelling, tmp_path):
    model = layer(spelling, **STYLES.get(spelling, {}), **({} if spelling in SPELLINGS else WIDE))
    result = compile_model(model, "mcm4", in_pieces(2), output=tmp_path / "m")
    states = [state for chip in result.chips for state in chip.states]
    assert len(states) == 4
    assert {state.whole.past for state in states} == {
        value.name for value in model.graph.inputs if "past" in value.name
    }
    told = [one.message for one in result.diagnostics if one.code == "MCM-P086"]
    assert told == ["2 of 2 caches cut by heads into up to 2 pieces"]
    checked = check_folder(tmp_path / "m", seeds=(0,))
    assert checked.holds
    assert not checked.verification.structure.unproven
    assert checked.verification.steps == 8
    assert all(output.bit_equal for output in checked.verification.outputs)


def test_a_cache_in_pieces_is_given_and_returned_whole(tmp_path):
    model, folder = layer("gqa-shared"), tmp_path / "m"
    compile_model(model, "mcm4", in_pieces(2), output=folder)
    feeds = random_inputs(model, 3)
    first = run_folder(folder, feeds)
    whole = run_model(folder / ANNOTATED, feeds)
    assert all(np.array_equal(first[name], whole[name]) for name in whole)
    second = run_folder(folder, feeds, before=first)
    pasts = {f"past_{k}": whole[f"present_{k}"] for k in (0, 1)}
    handed = run_model(folder / ANNOTATED, {**feeds, **pasts})
    assert all(np.array_equal(second[name], handed[name]) for name in handed)


@pytest.mark.parametrize("end", [0, 1])
def test_pieces_of_a_cache_that_leave_a_gap_are_refused(tmp_path, end):
    compile_model(layer("gqa-shared"), "mcm4", in_pieces(2), output=tmp_path / "m")
    opened = open_folder(tmp_path / "m", further=True)
    first, *rest = opened.manifest.states.held
    places = list(first.places)
    places[end] = replace(places[end], start=1, stop=2)
    states = replace(opened.manifest.states, held=(replace(first, places=tuple(places)), *rest))
    opened = replace(opened, manifest=replace(opened.manifest, states=states))
    with pytest.raises(CompileError) as caught:
        check_structure(opened)
    assert {one.code for one in caught.value.diagnostics} == {"MCM-A011"}


def small_chips(path, sram_mib):
    text = load_target("mcm16").source_text
    path.write_text(re.sub(r"sram_mib = \d+", f"sram_mib = {sram_mib}", text), encoding="utf-8")
    return str(path)


def test_a_level_holds_caches_in_pieces_where_more_sequences_are_served(tmp_path):
    size = {"hidden": 128, "heads": 8, "kv_heads": 8, "intermediate": 128, "vocab": 64}
    model, target = layer("genai", 255, **size), small_chips(tmp_path / "t.toml", 0.3)
    options = CompileOptions(level=1, inferences=8)
    result = compile_model(model, target, options)
    assert DIVISION.get(result.model).caches == 8
    assert len([state for chip in result.chips for state in chip.states]) == 16
    passes = STEPS + "{search=false}"
    whole = REPLICATION.get(run_passes(model, target, replace(options, passes=passes))[0])
    assert served_s(result.replication) < 0.8 * served_s(whole)
    assert result.verification.steps == 8
    assert all(output.bit_equal for output in result.verification.outputs)


@pytest.mark.parametrize(("sram_mib", "sequences"), [(0.4, None), (1.2, 5)])
def test_a_cache_that_fits_no_chip_is_cut_at_every_level(tmp_path, sram_mib, sequences):
    size = {"hidden": 128, "heads": 8, "kv_heads": 8, "intermediate": 32, "vocab": 20}
    target = small_chips(tmp_path / "t.toml", sram_mib)
    options = CompileOptions(level=0, sequences=sequences, passes=f"{STEPS},partition")
    _, notes, *_ = run_passes(layer("genai", 1023, **size), target, options)
    pieces = 2 if sequences is None else 3  # of 512 KiB for each sequence
    (told,) = (note.message for note in notes if note.code == "MCM-P086")
    assert told == f"2 of 2 caches cut by heads into up to {pieces} pieces"
    assert "MCM-P052" not in {note.code for note in notes}


def served_s(chosen):
    """Seconds between steps of all sequences that chips hold."""
    return next(one.served_s for one in chosen.considered if one.replicas == chosen.replicas)


def test_no_cache_is_cut_where_chips_hold_many(monkeypatch):
    def fails(*_):
        raise AssertionError

    monkeypatch.setattr(division_search, "cache_cuts", fails)
    options = CompileOptions(level=2, passes=STEPS)
    model, *_ = run_passes(layer("genai", layers=3), "mcm16", options)
    assert DIVISION.get(model).caches == 1


def cache_traffic(spelling):
    """Bytes that kernels move, and the seconds that they take, for a context of 8,192 tokens."""
    options = CompileOptions(level=0, passes="simplify,fuse,annotate_cost")
    result = compile_model(layer(spelling, 8191), "mcm4", options)
    names, kernels = FUSION_PLAN.get(result.model).group_names, {}
    for node in placeable_nodes(result.model.graph):
        kernels.setdefault(names.get(node.name, node.name), []).append(node)
    costs = [result.target.cost_model().group_cost(nodes) for nodes in kernels.values()]
    heavy = [cost for cost in costs if cost.read_bytes + cost.write_bytes > 8192]
    return sum(c.read_bytes + c.write_bytes for c in heavy), sum(c.seconds for c in heavy)


def test_repeated_heads_and_an_appended_cache_are_no_copies():
    """The cache is 2 x 2 heads x 8 columns x 8192 tokens of 16 bits, read once."""
    size, seconds = cache_traffic("genai")
    assert size == pytest.approx(2 * 2 * 8 * 8192 * 2, rel=0.1)
    for spelling in ("hf", "attention"):
        moved, taken = cache_traffic(spelling)
        assert moved <= 1.15 * size
        assert taken <= 1.15 * seconds
    # Twice as many queries, which read the same cache.
    assert cache_traffic("gqa-packed")[0] <= 1.15 * size


def test_a_quantised_cache_is_unpacked_on_its_way_to_attention():
    size, _ = cache_traffic("hf")
    assert cache_traffic("quantised")[0] <= 0.6 * size


def test_a_sliding_window_bounds_the_cache_and_what_is_read_of_it(tmp_path):
    """A window of 8 of 64 tokens, 2 heads of 8 columns of 16 bits, keys and values."""
    options = CompileOptions(level=0, replicas=1, inferences=8, sequences=4)
    held = {}
    for spelling in ("genai", "gqa-window"):
        folder = tmp_path / spelling
        result = compile_model(layer(spelling, 63), "mcm4", options, output=folder)
        held[spelling] = [chip.state_bytes for chip in result.program.chips if chip.state_bytes]
        assert check_folder(folder, seeds=(0,)).holds
    assert held == {"genai": [2 * 64 * 2 * 8 * 2], "gqa-window": [2 * 8 * 2 * 8 * 2]}
    assert cache_traffic("gqa-window")[0] < 0.2 * cache_traffic("genai")[0]
