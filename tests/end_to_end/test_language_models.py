"""Language models on chips that are too small for their outputs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from mcm_compiler.api import run_passes
from mcm_compiler.checking.check import check_folder
from mcm_compiler.cli.main import cli
from mcm_compiler.contracts.partition import PARTITION
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_passes.parallelism.copies.copied_rounds import REFINING

MODEL = "zoo:gpt2-tiny{layers=1,hidden=32,heads=1,intermediate=64,vocab=4000}"

TARGET = """family = "ring"
[package]
num_chips = 8
host_io = "any"
channel_slots = 2
[chip]
sram_mib = 0.25
sram_bandwidth_gb_per_s = 64
buffer_alignment_bytes = 64
launch_overhead_ns = 150
[chip.mac_array]
rows = 8
cols = 8
clock_mhz = 500
[chip.vector_unit]
lanes = 16
clock_mhz = 500
[link]
bandwidth_gb_per_s = 8
hop_latency_us = 1
[host]
bandwidth_gb_per_s = 8
latency_us = 1
[storage_bits]
FLOAT = 16
INT64 = 32
"""


def mcmc(*arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The folder of a model whose logits take twice the memory of a chip."""
    base = tmp_path_factory.mktemp("pieces")
    (base / "small.toml").write_text(TARGET)
    asked = ("--target", base / "small.toml", "-o", base / "out", "-O1")
    result = mcmc("compile", MODEL, *asked)
    assert result.exit_code == 0, result.output
    return base / "out", result


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def changed(compiled, tmp_path, change):
    """A copy of the folder in which the parts of the output's wires are changed."""
    folder = tmp_path / "changed"
    shutil.copytree(compiled[0], folder)
    data = manifest_of(folder)
    change([wire for wire in data["wires"] if wire["part"]])
    (folder / "manifest.json").write_text(json.dumps(data))
    return folder


def findings(folder):
    """What `check` prints about a folder that does not hold."""
    result = mcmc("check", folder)
    assert result.exit_code == 1
    return result.output


def test_an_output_leaves_in_pieces_from_the_chips_that_make_them(compiled):
    folder, result = compiled
    data = manifest_of(folder)
    pieces = [wire for wire in data["wires"] if wire["part"]]
    assert len(pieces) > 2
    assert [wire["tensor"] for wire in pieces] == [f"logits/part_{k}" for k in range(len(pieces))]
    assert len({wire["source"] for wire in pieces}) > 1
    assert {wire["part"]["output"] for wire in pieces} == {"logits"}
    assert pieces[0]["part"]["shape"] == [1, 32, 4000]
    assert pieces[0]["part"]["axis"] == 2
    assert [entry["name"] for entry in data["outputs"]] == ["logits"]
    assert "MCM-P056" in result.stderr
    program = json.loads((folder / "program.json").read_text())
    out = {t["tensor"]: t["source"] for t in program["transfers"] if t["destination"] == -1}
    assert out == {wire["tensor"]: wire["source"] for wire in pieces}
    ops = [name for chip in data["chips"] for name in chip["order"]]
    assert not [name for name in ops if "concat" in name.lower() and "lm_head" in name]


def test_the_folder_is_proven_and_runs(compiled, tmp_path):
    folder, _ = compiled
    assert check_folder(folder, seeds=(0, 1)).holds
    np.savez(tmp_path / "in.npz", input_ids=np.arange(32, dtype=np.int64)[None])
    result = mcmc("run", folder, "--input", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    assert np.load(tmp_path / "out.npz")["logits"].shape == (1, 32, 4000)


def swap(wires):
    """Gives two pieces of equal extent the places of each other."""
    extents = [wire["part"]["stop"] - wire["part"]["start"] for wire in wires]
    other = extents.index(extents[0], 1)
    wires[0]["part"], wires[other]["part"] = wires[other]["part"], wires[0]["part"]


def shift(wires):
    wires[0]["part"]["stop"] -= 1
    wires[1]["part"]["start"] -= 1


def leave_out(wires):
    wires[0]["part"] = None


def other_axis(wires):
    for wire in wires:
        wire["part"]["axis"] = 1


def other_output(wires):
    for wire in wires:
        wire["part"]["output"] = "something"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (swap, "MCM-V061"),
        (shift, "MCM-A011"),
        (leave_out, "MCM-A011"),
        (other_axis, "MCM-A011"),
        (other_output, "MCM-A011"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_pieces_in_other_places_are_refused(compiled, tmp_path, change, code):
    assert code in findings(changed(compiled, tmp_path, change))


LONG = "zoo:gpt2-tiny{layers=1,hidden=32,heads=1,intermediate=64,vocab=4000,seq=128}"


def smaller(base):
    text = TARGET.replace("num_chips = 8", "num_chips = 16").replace("0.25", "0.27")
    (base / "small.toml").write_text(text)
    return base / "small.toml"


def compiled_long(base, *options):
    asked = ("--target", smaller(base), "-o", base / "out", "-O1", *options)
    result = mcmc("compile", LONG, *asked)
    assert result.exit_code == 0, result.output
    return base / "out", result


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    """A folder of a model whose head is divided by columns, for its weights, and then by rows."""
    passes = DEFAULT_PIPELINE.replace("parallelize", "parallelize{search=false}")
    return compiled_long(tmp_path_factory.mktemp("tiles"), "--passes", passes)


def test_levels_cut_what_is_in_pieces_and_rows_already(tmp_path):
    folder, result = compiled_long(tmp_path)
    assert "MCM-P057" not in result.stderr
    assert "MCM-P071" in result.stderr
    part = next(wire["part"] for wire in manifest_of(folder)["wires"] if wire["part"])
    assert (part["output"], part["axis"]) == ("logits/part_0", 1)
    assert (part["within"]["output"], part["within"]["axis"]) == ("logits", 2)
    assert check_folder(folder, seeds=(0,)).holds


def test_only_divisions_that_levels_find_are_refined_alone(tmp_path):
    target = str(smaller(tmp_path))

    def found(step):
        passes = f"simplify,fuse,annotate_cost,{step},partition"
        options = CompileOptions(level=2, round=1, budget_s=1.0, passes=passes)
        model, notes, _ = run_passes(LONG, target, options)
        said = [note.message.split("`")[1] for note in notes if note.code == "MCM-P071"]
        return PARTITION.get(model).strategy, said

    strategy, (step,) = found("parallelize")
    assert strategy == REFINING
    assert found(step) == ("portfolio", [])
    assert found(step.replace("}", ",search=false}")) == (REFINING, [])


def test_tiles_of_rows_are_placed_passed_on_and_proven(tiled, tmp_path):
    folder, result = tiled
    assert "MCM-P057" in result.stderr
    data = manifest_of(folder)
    ops = {name: chip["chip"] for chip in data["chips"] for name in chip["order"]}
    assert ops["/lm_head/Gemm/shard_0/tile_0"] != ops["/lm_head/Gemm/shard_0/tile_1"]
    # A tile's rows are passed on by a relay, and the proof follows them.
    assert any("@part_" in name and "/relay_" in name for name in ops)
    part = next(wire["part"] for wire in data["wires"] if wire["part"])
    assert (part["output"], part["axis"]) == ("logits/part_0", 0)
    assert (part["within"]["output"], part["within"]["axis"]) == ("logits", 2)
    assert check_folder(folder, seeds=(0,)).holds
    np.savez(tmp_path / "in.npz", input_ids=np.arange(128, dtype=np.int64)[None])
    result = mcmc("run", folder, "--input", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    assert np.load(tmp_path / "out.npz")["logits"].shape == (1, 128, 4000)


def deeper(wires):
    wires[0]["part"]["within"]["within"] = dict(wires[0]["part"]["within"])


@pytest.mark.parametrize(
    ("change", "code"),
    [(swap, "MCM-V061"), (shift, "MCM-A011"), (deeper, "MCM-A011")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_tiles_in_other_places_are_refused(tiled, tmp_path, change, code):
    assert code in findings(changed(tiled, tmp_path, change))
