"""Profiles: one folder, one set of weights, a program for each size, and states that pass on."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from mcm_compiler import profiles as profiles_module
from mcm_compiler.api import compile_model
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.artifact.profiles import profile_folder
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.checking.entry.run_folder import run_folder
from mcm_compiler.checking.profiles_check import check_profiles
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.difference.sides import read_package
from mcm_compiler.options import CompileOptions
from mcm_compiler.page.folder_page import checked_folder_page
from mcm_compiler.profiles import compile_profiles, parse_profiles
from tests.generators.small_decoders import small_decoder

QUICK = CompileOptions(level=0, replicas=1, inferences=8)
SIZES = {
    "mha": ("prefill:seq=8,past=0", "decode:seq=1,past=8", "chunk:seq=4,past=4"),
    "gqa-shared": ("prefill:seq=8,past=16,total=16", "decode:seq=1,past=16,total=16"),
}
SIZES["gqa-shared in pieces"] = SIZES["gqa-shared"]
PIECES = replace(QUICK, passes=QUICK.passes.replace("parallelize", "parallelize{caches=2}"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """By spelling, the folder and the model."""
    made = {}
    for spelling, texts in SIZES.items():
        options = PIECES if "pieces" in spelling else QUICK
        proto = ir.to_proto(small_decoder(spelling.split()[0], None))
        path = tmp_path_factory.mktemp("profiles") / "decoder.onnx"
        onnx.save(proto, path)
        folder = path.with_name("out")
        profiles = parse_profiles(texts, {})
        results = compile_profiles(path, "mcm4", options, profiles, output=folder)
        assert all(one.verification.holds for one in results)
        held = {sum(len(chip.states) for chip in one.chips) for one in results}
        assert held == {4 if options is PIECES else 2}
        made[spelling] = folder, proto
    return made


@pytest.mark.parametrize("spelling", SIZES)
def test_weights_are_stored_once_and_every_program_is_checked(compiled, spelling):
    folder, proto = compiled[spelling]
    data = [path for path in folder.iterdir() if path.name.endswith(".data")]
    weights = [onnx.numpy_helper.to_array(one) for one in proto.graph.initializer]
    large = sum(one.nbytes for one in weights if one.nbytes >= 1024)
    stored = [path.stat().st_size for path in data]
    assert large <= sum(stored) < large + 4096 * len(weights)
    assert not [path for path in data if path.name.startswith(("decode", "chunk"))]
    report = check_folder(folder)
    assert report.holds, report.diagnostics
    names = [text.partition(":")[0] for text in SIZES[spelling][1:]]
    assert {s.name.partition(":")[0] for s in report.steps if ":" in s.name} == set(names)


def test_the_time_to_the_first_token_is_that_of_the_profile_that_reads_most(compiled):
    folder, _ = compiled["mha"]
    prefill, decode, chunk = (
        json.loads((profile_folder(folder, name) / "report.json").read_text())["states"]
        for name in ("prefill", "decode", "chunk")
    )
    row = {"profile": "prefill", "tokens": 8, "tokens_per_step": 8, "ttft_s": prefill["ttft_s"]}
    assert (prefill.get("prompt"), decode["prompt"], chunk["prompt"]) == (None, row, row)
    assert decode["ttft_s"] == prefill["ttft_s"] < 8 * decode["tpot_s"]
    text = (profile_folder(folder, "decode") / "report.md").read_text()
    assert "prompt of 8 tokens, read 8 at a time by profile 'prefill'" in " ".join(text.split())


def test_limits_are_those_of_the_steps_that_users_wait_for(compiled):
    folder, _ = compiled["mha"]
    profiles = parse_profiles(("decode:seq=1,past=8", "prefill:seq=8,past=0"), {})
    options = replace(QUICK, serve={"tpot": 1.0, "ttft": 2.0})
    asked = profiles_module._asked(folder.with_name("decoder.onnx"), options, profiles)
    assert {name: set(one.serve) for name, one in asked.items()} == {
        "decode": {"tpot"},
        "prefill": {"ttft"},
    }


def test_pages_and_comparisons_name_the_profile(compiled):
    folder, _ = compiled["mha"]
    assert read_package(folder).model == "decoder.onnx (profile prefill)"
    for shown, name in ((folder, "prefill"), (profile_folder(folder, "decode"), "decode")):
        page, _ = checked_folder_page(shown)
        assert f">profile {name}<" in page.decode()


def in_steps(proto, ids, buffer):
    """Outputs of 8 tokens at once and of 8 single ones, on onnxruntime alone."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(proto.SerializeToString(), options)
    past = np.zeros((1, 2, buffer, 8), np.float32)
    states, made = (past, past), []
    for first, last in [(0, 8), *((at, at + 1) for at in range(8, 16))]:
        mask = np.zeros((1, buffer), np.int64)
        mask[:, :last] = 1
        feeds = {"ids": ids[:, first:last], "mask": mask}
        y, *states = session.run(None, {**feeds, "past_0": states[0], "past_1": states[1]})
        made.append(y)
    return made


@pytest.mark.parametrize("spelling", ["gqa-shared", "gqa-shared in pieces"])
def test_prefill_then_decode_equals_the_whole_model_over_eight_steps(compiled, spelling):
    folder, proto = compiled[spelling]
    ids = np.random.default_rng(1).integers(0, 20, (1, 16))
    masks = np.tri(16, dtype=np.int64)
    past = np.zeros((1, 2, 16, 8), np.float32)
    first = {"ids": ids[:, :8], "mask": masks[7:8], "past_0": past, "past_1": past}
    before = run_folder(folder, first)
    steps = {"ids": ids[0, 8:].reshape(8, 1, 1), "mask": masks[8:].reshape(8, 1, 16)}
    made = run_folder(profile_folder(folder, "decode"), steps, 8, before)
    expected = in_steps(proto, ids, 16)
    assert np.array_equal(before["y"], expected[0])
    assert np.array_equal(made["y"], np.stack(expected[1:]))
    whole = ort.InferenceSession(proto.SerializeToString()).run(
        ["y"], {"ids": ids, "mask": masks[15:], "past_0": past, "past_1": past}
    )[0]
    np.testing.assert_allclose(made["y"][:, 0, 0], whole[0, 8:], atol=1e-5)


def test_a_changed_file_of_a_further_profile_is_found(compiled, tmp_path):
    folder, _ = compiled["mha"]
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    chip = copy / "decode.chip_00.onnx"
    chip.write_bytes(chip.read_bytes() + b"\0")
    (fault,) = check_folder(copy).diagnostics
    assert fault.code == "MCM-A008"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("a:seq=1", "a:seq=2"), "given twice"),
        (("a:seq=1", "b:seq=1"), "the same sizes"),
        (("a:seq=1,seq=2", "b:seq=3"), "is 1 and 2"),
        (("a:seq", "b:seq=3"), "not of the form DIM=N"),
        (("A:seq=1", "b:seq=3"), "small letters"),
        (("a:batch=2", "b:seq=3"), "--dim says 1"),
        (("a:seq=1",), "1 profile given"),
    ],
)
def test_profiles_that_contradict_each_other_are_refused(texts, message):
    with pytest.raises(CompileError, match=message) as caught:
        parse_profiles(texts, {"batch": 1})
    assert caught.value.diagnostics[0].code == "MCM-U091"


def test_a_prompt_that_no_report_has_is_found(compiled):
    folder, _ = compiled["mha"]
    opened = OpenedFolder(folder, read_manifest(folder))
    opened.report["states"]["prompt"] = {"profile": "chunk"}
    with pytest.raises(CompileError, match=r"'states\.prompt' is not what the reports"):
        check_profiles(opened)


def test_an_unknown_dimension_names_its_profile(compiled, tmp_path):
    folder, _ = compiled["mha"]
    profiles = parse_profiles(("a:seq=1,past=8", "b:sec=2"), {})
    model = folder.with_name("decoder.onnx")
    with pytest.raises(CompileError, match="no dimension 'sec'") as caught:
        compile_profiles(model, "mcm4", QUICK, profiles, output=tmp_path / "out")
    assert caught.value.diagnostics[0].at == "profile 'b', --dim"
    assert not (tmp_path / "out").exists()


def test_an_unknown_profile_is_refused(compiled):
    folder, _ = compiled["mha"]
    with pytest.raises(CompileError, match="no profile 'decoding'; it has: prefill, decode") as e:
        profile_folder(folder, "decoding")
    assert e.value.diagnostics[0].code == "MCM-A024"


BRANCHES = """<ir_version: 10, opset_import: ["" : 21]>
m (int64[1,seq] ids) => (float[1,seq,32] y) <int64 at = {1}, int64 four = {4}> {
    x = Gather (table, ids)
    sizes = Shape (ids)
    tokens = Gather (sizes, at)
    long = Greater (tokens, four)
    y = If (long) <
        then_branch = a () => (float[1,s,32] u) { u = MatMul (x, of_long) },
        else_branch = b () => (float[1,s,32] v) { v = MatMul (x, of_short) }
    >
}"""
"""A model that reads other weights for prompts of more than four tokens."""


def check_of_written(monkeypatch, compile_all, output):
    """The diagnostic of a compile, and that of the check of a folder that it wrote regardless."""
    with pytest.raises(CompileError) as caught:
        compile_all()
    assert not output.exists()
    monkeypatch.setattr(profiles_module, "check_profiles", lambda _: None)
    compile_all()
    report = check_folder(output)
    assert [step.name for step in report.steps if not step.holds] == ["profiles"]
    assert report.diagnostics == caught.value.diagnostics
    return report.diagnostics[0]


def with_weights(text, names, folder):
    """The path of a model with square weights."""
    proto = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    for name in ("table", *names):
        array = rng.standard_normal((32, 32)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


def test_further_profiles_have_the_rounds_of_the_first(tmp_path):
    names = [f"w{at}" for at in range(5)]
    body = "".join(f" x{at + 1} = MatMul (x{at}, w{at})" for at in range(5))
    head = BRANCHES.splitlines()[0]
    ends = "(int64[1,seq] ids) => (float[1,seq,32] x5)"
    text = f"{head} m {ends} {{ x0 = Gather (table, ids) {body} }}"
    model = with_weights(text, names, tmp_path)
    asked = parse_profiles(("long:seq=64", "short:seq=1"), {})
    options = replace(QUICK, round=2)
    found = compile_profiles(model, "mcm4", options, asked, output=tmp_path / "out")
    assert [one.replication.round for one in found] == [2, 2]
    placed = [
        [(chip.chip, sorted(chip.model.graph.initializers)) for chip in one.chips] for one in found
    ]
    assert placed[0] == placed[1]
    assert len(placed[0]) == 4


def test_constants_that_follow_from_the_sizes_of_a_profile_are_stored_with_it(tmp_path):
    """As the causal mask of a prompt is, which a step of one token needs no more than a row of."""
    body = "x = Gather (table, ids) n = Shape (x) a = ConstantOfShape <value = float[1] {1}> (n)"
    text = BRANCHES.splitlines()[0] + (
        f" m (int64[1,seq] ids) => (float[1,seq,32] y) {{ {body} t = Trilu (a) y = Add (x, t) }}"
    )
    model, output = with_weights(text, (), tmp_path), tmp_path / "out"
    asked = parse_profiles(("short:seq=1", "long:seq=16"), {})
    compile_profiles(model, "mcm4", replace(QUICK, chips=1), asked, output=output)
    assert (output / "long.chip_00.onnx.data").stat().st_size >= 16 * 32 * 4
    assert check_folder(output).holds


def test_a_weight_that_the_first_profile_lacks_is_refused(tmp_path, monkeypatch):
    model = with_weights(BRANCHES, ("of_long", "of_short"), tmp_path)
    output = tmp_path / "out"
    asked = parse_profiles(("short:seq=1", "long:seq=8"), {})
    fault = check_of_written(
        monkeypatch, lambda: compile_profiles(model, "mcm4", QUICK, asked, output=output), output
    )
    assert fault.code == "MCM-P087"
    assert fault.at == "profile 'long', chip 1"
    assert "'of_long' of 4.0 KiB" in fault.message


@pytest.mark.parametrize("shape_only", ["false", "true"])
def test_ops_with_dequantised_or_placeholder_weights_have_places(shape_only):
    model = f"zoo:llama-tiny{{layers=1,weights=qdq,shape_only={shape_only}}}"
    lead = compile_model(model, "mcm4", QUICK)
    products = [
        (node.name, chip.chip)
        for chip in lead.chips
        for node in chip.model.graph
        if "_proj/MatMul" in node.name or "lm_head/MatMul" in node.name
    ]
    assert len(products) == 8
    assert set(products) <= set(profiles_module._places(lead).items())


def test_states_and_pipelines_that_are_elsewhere_are_found(compiled):
    folder, _ = compiled["mha"]
    manifest = read_manifest(folder)
    held = tuple(replace(one, chip=1) for one in manifest.states.held)
    moved = replace(manifest, replicas=2, states=replace(manifest.states, held=held))
    with pytest.raises(CompileError) as caught:
        check_profiles(OpenedFolder(folder, moved))
    faults = [f"{one.at}: {one.message}" for one in caught.value.diagnostics]
    assert faults[:2] == [
        "profile 'decode': it has 1 pipeline in place of 2",
        "profile 'decode', chip 2: its state 'past_0' is on chip 1 in the first",
    ]


def test_profiles_that_do_not_fit_together_are_refused(compiled, tmp_path, monkeypatch):
    """One has many tokens and a short cache, the other one token and a long cache."""
    folder, _ = compiled["mha"]
    model, target = folder.with_name("decoder.onnx"), tmp_path / "small.toml"
    asked = parse_profiles(("wide:seq=16,past=1", "deep:seq=1,past=96"), {})
    alone = replace(QUICK, chips=1, sequences=1)
    results = compile_profiles(model, "mcm4", alone, asked, output=tmp_path / "fits")
    most = max(one.program.chips[0].high_water_bytes for one in results)
    text = (folder / "target.toml").read_text()
    target.write_text(re.sub(r"(?m)^sram_mib = .*", f"sram_mib = {(most + 64) / 2**20}", text))
    output = tmp_path / "out"
    fault = check_of_written(
        monkeypatch, lambda: compile_profiles(model, target, alone, asked, output=output), output
    )
    assert fault.code == "MCM-P088"
    assert "that the others keep there" in fault.message


def test_a_profile_that_does_not_fit_next_to_the_first_names_it(compiled, tmp_path):
    folder, _ = compiled["mha"]
    target = tmp_path / "small.toml"
    text = (folder / "target.toml").read_text()
    target.write_text(re.sub(r"(?m)^sram_mib = .*", f"sram_mib = {1 / 16}", text))
    asked = parse_profiles(("decode:seq=1,past=8", "prefill:seq=512,past=0"), {})
    with pytest.raises(CompileError) as caught:
        compile_profiles(
            folder.with_name("decoder.onnx"), target, QUICK, asked, output=tmp_path / "o"
        )
    fault = caught.value.diagnostics[0]
    assert fault.code == "MCM-P088"
    assert "where profile 'decode' has them: " in fault.message
    assert fault.at.startswith("profile 'prefill'")
