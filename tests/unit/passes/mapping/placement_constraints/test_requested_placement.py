"""Pins and assignments through the command line: kept, or refused with what to do about it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

from mcm_compiler.api import run_passes
from mcm_compiler.cli.main import cli
from mcm_compiler.components.target_loading import load_target, without_chips
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.placements.assignment_file import chip_of_op
from mcm_passes.families.ring.placement_constraints import nearest
from mcm_passes.mapping.placement_constraints.pins import KnownNames

# A chain of six with a long way round; not fused, so that each op is a unit.
TEXT = """
    <ir_version: 10, opset_import: ["" : 18]>
    g (float[64] x) => (float[64] y) <float[64] a, float[64] b, float[64] c, float[64] d> {
        a = Sin(x)
        b = Cos(a)
        c = Exp(b)
        d = Tan(c)
        e = Sinh(d)
        y = Add(e, a)
    }"""

OPS = ("/l.0/Sin", "/l.0/Cos", "/l.1/Exp", "/l.1/Tan", "/l.2/Sinh", "/l.2/Add")

PASSES = "simplify,fuse{max_group=1},annotate_cost,partition"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = onnx.parser.parse_model(TEXT)
    for node, name in zip(model.graph.node, OPS, strict=True):
        node.name = name
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path


def chips(folder: Path, **options: Any) -> list[int]:
    """The chip of each op on mcm4."""
    given = CompileOptions(passes=PASSES, **options)
    model, _, _ = run_passes(str(folder / "m.onnx"), "mcm4", given)
    found = chip_of_op(PARTITION_PROBLEM.get(model), PARTITION.get(model))
    return [found[op] for op in OPS]


def refused(folder: Path, *arguments: str) -> list[tuple[str, str, str, str]]:
    """Code, message, place and hint of each error of `mcmc opt`."""
    command = ["opt", str(folder / "m.onnx"), "--target", "mcm4", "--passes", PASSES]
    result = CliRunner().invoke(cli, [*command, "--format", "json", *arguments])
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)["diagnostics"]
    return [(d["code"], d["message"], d["at"], d["hint"]) for d in found]


def csv(folder: Path, *rows: str) -> str:
    path = folder / "cut.csv"
    path.write_text("\n".join(["name,chip", *rows, ""]))
    return str(path)


def test_pins_are_kept(folder):
    found = chips(folder, pins=(("/l.0/*", 0), ("/l.2/Add", 3), ("/l.1/Tan", 1)))
    assert (found[:2], found[3], found[5]) == ([0, 0], 1, 3)


def test_brackets_and_dots_in_a_pattern_mean_themselves():
    names = KnownNames(["a[0].b", "a0.b", "axb"])
    assert names.matching("a[0]*") == ["a[0].b"]
    assert names.matching("a?.b") == ["a0.b"]
    assert names.matching("a.b") == []
    assert names.matching("*") == ["a[0].b", "a0.b", "axb"]


def test_patterns_take_linear_time():
    names = KnownNames(["a" * 5000])
    assert names.matching("*a" * 2000 + "b") == []


def test_names_of_a_compile_that_found_a_round_or_a_division_say_how_to_repeat_it():
    names = KnownNames(["/conv/Conv", "/conv/Con"])
    assert "give `--round`" in names.hint("/conv/Conv@2")
    for divided in ("/conv/Conv/tile_3", "/conv/Conv/tile_3@1"):
        assert "note MCM-P071" in names.hint(divided)
    assert names.hint("/conv/Conv@x") == "did you mean '/conv/Conv' or '/conv/Con'?"


def test_near_names_are_found_among_many():
    names = KnownNames([f"/encoder/layer.{k}/MatMul" for k in range(30_000)])
    assert "'/encoder/layer.17/MatMul'" in names.hint("/encoder/layer.17/MatMull")
    assert "'/encoder/layer.29999/MatMul'" in names.hint("encoder/layer.29999/MatMul")


@pytest.mark.parametrize(
    ("pins", "code", "words", "hint"),
    [
        (["/l.0/Sim=1"], "MCM-F011", "no op or group", "'/l.0/Sin'"),
        (["/l.7/*=1"], "MCM-F011", "'/l.7/*'", "'/l."),
        (["/l.0/Sin=1", "/l.0/*=0"], "MCM-F012", "chip 1 by '/l.0/Sin'", "leave one"),
        (["/l.0/Sin=2", "/l.2/*=1"], "MCM-F012", "data flows to higher", "or higher"),
        (["/l.0/Sin=1"], "MCM-F012", "chip 0 would stay empty", "pin to lower"),
        (["/l.2/Add=4"], "MCM-P007", "has chips 0 to 3", "that exists"),
    ],
)
def test_pins_that_cannot_be_kept(folder, pins, code, words, hint):
    (found,) = refused(folder, *(f"--pin={pin}" for pin in pins))
    assert found[0] == code
    assert words in found[1]
    assert found[2]
    assert hint in found[3]


def test_ops_of_one_kernel_cannot_be_pinned_apart(folder):
    arguments = ["opt", str(folder / "m.onnx"), "--target", "mcm4", "--format", "json"]
    pins = ["--pin=/l.0/Cos=0", "--pin=/l.1/Tan=1"]
    passes = ["--passes", "simplify,fuse,annotate_cost,partition"]
    result = CliRunner().invoke(cli, [*arguments, *passes, *pins])
    (found,) = json.loads(result.stdout)["diagnostics"]
    assert found["code"] == "MCM-F012"
    assert "stay together" in found["message"]


def test_more_chips_than_nodes_are_refused(folder):
    wide = folder / "wide.toml"
    wide.write_text(re.sub(r"num_chips = 4", "num_chips = 9", load_target("mcm4").source_text))
    (found,) = refused(folder, "--target", str(wide), "--chips", "7")
    assert found[0] == "MCM-P013"
    assert "6 units" in found[1]


def test_an_assignment_is_taken(folder):
    rows = csv(folder, "/l.2/*,2", "/l.0/Sin,0", "*,1")
    assert chips(folder, assignment=rows) == [0, 1, 1, 1, 2, 2]
    as_json = folder / "cut.json"
    as_json.write_text(json.dumps({"*": 0}))
    assert chips(folder, assignment=str(as_json)) == [0] * 6


@pytest.mark.parametrize(
    ("rows", "code", "words", "hint"),
    [
        (["/l.0/Sim,0", "*,0"], "MCM-F011", "'/l.0/Sim'", "did you mean '/l.0/Sin'"),
        (["/l.9*,0", "*,0"], "MCM-F011", "matches no op", "did you mean '/l.0/Sin'"),
        (["/l.0/*,0"], "MCM-F013", "'/l.1/Exp', '/l.1/Tan', '/l.2/Sinh' and 1 more", "*,0"),
        (["*,9"], "MCM-F014", "rule 'range'", "to chip 3"),
        (["/l.0/Sin,1", "*,0"], "MCM-F014", "rule 'acyclic'", "'/l.0/Sin' to chip 0"),
        (["*,1"], "MCM-F014", "rule 'no_skip'", "moves 1 unit of 6"),
    ],
)
def test_assignments_that_cannot_be_taken(folder, rows, code, words, hint):
    found = refused(folder, "--assignment", csv(folder, *rows))[0]
    assert found[0] == code
    assert words in found[1]
    assert "cut.csv" in found[2]
    assert hint in found[3], found[3]
    assert code != "MCM-F014" or "proven nearest" in found[3]


def test_a_nearest_assignment_that_is_not_proven_is_called_so(folder, monkeypatch):
    monkeypatch.setattr(nearest, "MOST_LITERALS", 0)
    found = refused(folder, "--assignment", csv(folder, "*,1"))[0]
    assert "moves at most 1 unit of 6" in found[3]
    assert "proven" not in found[3]


def tight(folder: Path, sram_bytes: int) -> str:
    """A description of mcm4 with so little memory that buffers of 256 bytes matter."""
    path = folder / "tight.toml"
    text = re.sub(
        r"sram_mib = .*", f"sram_mib = {sram_bytes / 2**20:.9f}", load_target("mcm4").source_text
    )
    path.write_text(text)
    return str(path)


def test_no_assignment_of_a_model_that_does_not_fit_is_near(folder):
    found = refused(folder, "--target", tight(folder, 640), "--assignment", csv(folder, "*,0"))[0]
    assert found[0] == "MCM-F014"
    assert "rule 'memory'" in found[1]
    assert "no assignment of this model is valid, by proof" in found[3]


@pytest.mark.parametrize(
    ("sram_bytes", "strategy", "code", "words"),
    [
        (320, "dp", "MCM-P015", "'/l.0/Sin' alone needs 384 B on a chip of 320 B"),
        (320, "dp", "MCM-P015", "all weights need 0 B of 1.2 KiB on 4 chips"),
        (640, "dp", "MCM-P030", "that the rules allow was planned"),
        (640, "cpsat", "MCM-P016", "proved that no partition is valid"),
        (640, "portfolio", "MCM-P016", "proved that no partition is valid"),
        (640, "ideals", "MCM-P016", "proved that no partition is valid"),
    ],
)
def test_what_fits_nowhere_is_proven_or_called_unproven(folder, sram_bytes, strategy, code, words):
    target = tight(folder, sram_bytes)
    found = refused(folder, "--target", target, "--partitioner", strategy)[0]
    assert found[0] == code
    assert words in found[1]


def test_an_assignment_has_to_keep_the_pins(folder):
    found = refused(folder, "--assignment", csv(folder, "*,0"), "--pin", "/l.2/Add=1")[0]
    assert found[0] == "MCM-F014"
    assert "rule 'pin'" in found[1]
    assert "'/l.2/Add' to chip 1" in found[3]


def test_a_triangle_is_refused_under_strict_routing(folder):
    rows = csv(folder, "/l.0/*,0", "/l.1/*,1", "/l.2/*,2")
    assert chips(folder, assignment=rows) == [0, 0, 1, 1, 2, 2]
    found = refused(folder, "--assignment", rows, "--routing", "strict")[0]
    assert found[0] == "MCM-F014"
    assert "rule 'triangle'" in found[1]
    assert "--repair-assignment" in found[3]


def test_a_broken_assignment_is_repaired_on_demand(folder):
    rows = csv(folder, "/l.0/Sin,1", "/l.2/Add,3", "*,0")
    options = CompileOptions(passes=PASSES, assignment=rows, repair_assignment=True)
    model, notes, _ = run_passes(str(folder / "m.onnx"), "mcm4", options)
    found = chip_of_op(PARTITION_PROBLEM.get(model), PARTITION.get(model))
    assert PARTITION.get(model).strategy == "manual"
    assert sorted(found.values()) == list(found.values())
    assert [note.code for note in notes] == ["MCM-F015"]


def test_rows_for_ops_that_were_folded_are_noted(folder):
    model = onnx.load(folder / "m.onnx")
    model.graph.node.insert(1, onnx.helper.make_node("Identity", ["a"], ["aa"], name="gone"))
    model.graph.node[2].input[0] = "aa"
    onnx.save(model, folder / "m.onnx")
    options = CompileOptions(passes=PASSES, assignment=csv(folder, "gone,1", "*,0"))
    _, notes, _ = run_passes(str(folder / "m.onnx"), "mcm4", options)
    assert [note.code for note in notes] == ["MCM-F016"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pin", "a"], "not of the form"),
        (["--pin", "a=-1"], "not a number of a chip"),
        (["--pin", "a=1e3"], "not a number of a chip"),
        (["--assignment", "a.csv", "--partitioner", "dp"], "takes no --partitioner"),
        (["--repair-assignment"], "needs --assignment"),
        (["--forbid-chip", "-1"], "range"),
    ],
)
def test_wrong_usage(folder, arguments, words):
    result = CliRunner().invoke(cli, ["opt", str(folder / "m.onnx"), *arguments])
    assert result.exit_code == 2
    assert words in result.stderr


def test_options_of_the_api_are_checked():
    with pytest.raises(CompileError) as caught:
        CompileOptions(pins=(("a", -1),), forbidden_chips=(-2,), repair_assignment=True)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-U004"] * 3


def test_a_forbidden_chip_is_off():
    target = load_target("mcm4")
    smaller = without_chips(target, (2, 0))
    assert smaller.limits.num_chips == 2
    assert load_target("mcm4").limits.num_chips == 4
    assert without_chips(smaller, (0,)) is smaller
    assert without_chips(target, ()) is target
    assert "off = true" in smaller.source_text


@pytest.mark.parametrize(
    ("forbidden", "words"), [(["7"], "there is no chip 7"), (list("0123"), "all 4 chips are off")]
)
def test_chips_that_cannot_be_forbidden(folder, forbidden, words):
    (found,) = refused(folder, *(f"--forbid-chip={place}" for place in forbidden))
    assert found[0] == "MCM-F020"
    assert words in found[1]
    assert found[2] == "option --forbid-chip"


def test_a_target_that_cannot_shrink_says_so():
    class Rigid:
        name = "rigid"

    with pytest.raises(CompileError, match="no way to switch chips off"):
        without_chips(Rigid(), (0,))  # type: ignore[arg-type]
