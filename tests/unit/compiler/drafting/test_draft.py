"""`mcmc init`: sizes and where they come from, groups, bad names and bad files."""

from __future__ import annotations

import json
import os
import tomllib
from importlib import resources

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper, parser

from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.drafting.draft import Listing, draft_text
from mcm_compiler.drafting.model_draft import ModelDraft, Sizes, draft_model
from mcm_compiler.drafting.solution import Found
from mcm_compiler.project.cells import cells_of
from mcm_compiler.project.reader import read_project
from mcm_compiler.text.toml_description import toml_key, toml_text

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
RELU = "g (float[batch,4] x) => (float[batch,4] y) { y = Relu (x) }"
FIXED = "g (float[2,4] x) => (float[2,4] y) { y = Relu (x) }"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(parser.parse_model(HEAD + text), path)


def sizes(tmp_path, text, name="net.onnx"):
    write(tmp_path / name, text)
    draft = draft_model(tmp_path, name)
    assert not draft.faults
    dims = {dim: found.size for dim, found in draft.sizes.dims.items()}
    return dims | {dim: shape for dim, (shape, _) in draft.sizes.shapes.items()}


def init(folder, *options):
    return CliRunner().invoke(cli, ["init", str(folder), *options])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(float[b,n] x) => (float[b,2] y) <float[3,2] w = {1,2,3,4,5,6}> { y = MatMul (x, w) }",
         {"b": 1, "n": 3}),
        ("(float[b,n] x) => (float[b,2] y) <float[2,3] w = {1,2,3,4,5,6}> "
         "{ y = Gemm <transB = 1> (x, w) }", {"b": 1, "n": 3}),
        ("(float[b,n,7,7] x) => (float[b,2,7,7] y) <float[2,1,1,1] w = {1,2}> "
         "{ y = Conv <group = 2> (x, w) }", {"b": 1, "n": 2}),
        ("(float[n] x) => (float[2,3] y) <int64[2] s = {2,3}> { y = Reshape (x, s) }", {"n": 6}),
        ("(float[n,m] x) => (float[n,3] y) <float[3] w = {1,2,3}> { y = Add (x, w) }",
         {"n": 1, "m": 3}),
        ("(float[n,m] x, float[5,k] z) => (float[a,b] y) { y = Concat <axis = 1> (x, z) }",
         {"n": 5, "m": 128, "k": 128}),
        ("(float[n,m] x) => (float[1,m] y) <int64[1] i = {40}> { y = Gather <axis = 0> (x, i) }",
         {"n": 41, "m": 128}),
        ("(float[n,m] x, float[m,5] z) => (float[n,5] y) "
         '{ y = Einsum <equation = "ij,jk->ik"> (x, z) }', {"n": 1, "m": 128}),
        ("(float[n,9] x) => (float[n,2] a, float[n,7] b) <int64[2] s = {2,7}> "
         "{ a, b = Split <axis = 1> (x, s) }", {"n": 1}),
        # The first axis goes through a transpose before a weight says how long it is.
        ("(float[n,m] x) => (float[m,2] y) <float[3,2] w = {1,2,3,4,5,6}> "
         "{ t = Transpose <perm = [1,0]> (x) y = MatMul (t, w) }", {"n": 3, "m": 128}),
    ],
)  # fmt: skip
def test_sizes_that_a_model_determines(tmp_path, body, expected):
    assert sizes(tmp_path, f"g {body}") == expected


def test_a_guess_that_does_not_run_gives_way_to_one_that_does(tmp_path):
    body = """g (float[batch,1,height,width] x) => (float[batch,2] y)
    { p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x) f = Flatten (p)
      y = Gemm (f, w) }"""
    model = parser.parse_model(HEAD + body)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((100, 2), np.float32), "w"))
    onnx.save(model, tmp_path / "net.onnx")
    draft = draft_model(tmp_path, "net.onnx")
    found = {name: one.size for name, one in draft.sizes.dims.items()}
    assert found["batch"] == 1
    assert (found["height"] // 2) * (found["width"] // 2) == 100
    told = [one.reason for one in draft.sizes.dims.values() if not one.guessed]
    assert told
    assert all(reason.startswith("onnxruntime runs with it, and not with 224") for reason in told)


def test_a_size_that_a_failed_run_names_is_tried(tmp_path):
    # The shape of what NonZero finds is hidden from inference, so that only a run tells the width.
    body = """g (float[batch,width] x) => (float[1,2] y)
    { n = NonZero (x) t = Transpose <perm = [1,0]> (n) g = GatherND (x, t)
      r = Reshape (g, s) y = Gemm (r, w) }"""
    model = parser.parse_model(HEAD + body)
    for name, array in (("s", np.array([1, -1], np.int64)), ("w", np.ones((37, 2), np.float32))):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "net.onnx")
    found = draft_model(tmp_path, "net.onnx").sizes.dims["width"]
    assert found == Found(37, "onnxruntime runs with it, and not with 224", tried=True)


def test_the_body_of_a_scan_declares_sizes(tmp_path):
    body = """g (float[steps,n] x, float[m] start) => (float[m] last, float[s,4] all)
    { last, all = Scan <num_scan_inputs = 1, body = b (float[4] before, float[4] now)
      => (float[4] after, float[4] out) { after = Add (before, now) out = Relu (after) }>
      (start, x) }"""
    assert sizes(tmp_path, body) == {"steps": 128, "n": 4, "m": 4}


def test_sizes_that_follow_from_others_by_name_are_left_to_the_compile(tmp_path):
    body = "(float[n,m] x, float[k,m] z) => (float[a,m] y) { y = Concat <axis = 0> (x, z) }"
    model = parser.parse_model(f"{HEAD}g {body}")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*n + 1"
    onnx.save(model, tmp_path / "net.onnx")
    draft = draft_model(tmp_path, "net.onnx")
    assert {name: found.size for name, found in draft.sizes.dims.items()} == {"n": 1, "m": 128}
    assert "not seen to run" not in draft.sizes.dims["n"].reason


def test_dimensions_without_names_become_whole_shapes(tmp_path):
    body = "(float[?,n] x) => (float[?,2] y) <float[3,2] w = {1,2,3,4,5,6}> { y = MatMul (x, w) }"
    assert sizes(tmp_path, f"g {body}") == {"x": (1, 3)}


def test_an_input_without_a_rank_is_said_to_need_a_shape(tmp_path):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, None)],
        [value("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    done = init(tmp_path)
    assert done.stdout.endswith("mcmc.toml: 1 model, 1 input without a shape\n")
    assert "# input \"x\" declares no shape: give it one in 'shapes'" in (
        (tmp_path / "mcmc.toml").read_text()
    )


def test_data_beside_a_model_come_first(tmp_path):
    write(tmp_path / "a" / "net.onnx", RELU)
    np.savez(tmp_path / "a" / "net.npz", x=np.ones((5, 4), np.float32))
    write(tmp_path / "b" / "net.onnx", RELU)
    data = tmp_path / "b" / "test_data_set_0"
    data.mkdir()
    onnx.save_tensor(numpy_helper.from_array(np.ones((6, 4), np.float32)), data / "input_0.pb")
    first, second = (draft_model(tmp_path, f"{name}/net.onnx") for name in "ab")
    assert (first.sizes.dims["batch"].size, first.inputs) == (5, "net.npz")
    assert second.sizes.dims["batch"] == Found(6, "the data in test_data_set_0")
    done = init(tmp_path)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "mcmc.toml").read_text()
    assert 'inputs = "a/net.npz"' in text
    assert "batch = 5  # the data in net.npz" in text
    assert 'name = "b-net"' in text  # two models of one name


def test_data_that_do_not_fit_are_passed_over(tmp_path):
    np.savez(tmp_path / "net.npz", x=np.ones((5, 7), np.float32))
    assert sizes(tmp_path, RELU) == {"batch": 1}
    (tmp_path / "net.npz").write_bytes(b"no archive")
    assert sizes(tmp_path, RELU) == {"batch": 1}


CACHED = """g (int64[batch,sequence] input_ids, float[batch,past_len,2] pk,
float[batch,past_len,2] pv, float[batch,all] attention_mask)
=> (float[batch,sequence,2] y, float[batch,total,2] nk, float[batch,2] nv)
<float[9,2] table = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}>
{ y = Gather (table, input_ids) nk = Concat <axis = 1> (pk, y)
  nv = ReduceMax <axes = [1], keepdims = 0> (nk) sum = ReduceSum (nk, axes) m = Add (sum, mask3)
  mask3 = Unsqueeze (attention_mask, axes) }"""


def test_a_cache_makes_prefill_and_decode(tmp_path):
    model = parser.parse_model(HEAD + CACHED)
    model.graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), "axes"))
    text = {
        "pk": "past_key_values.0.key",
        "nk": "present.0.key",
        "pv": "past_key_values.0.value",
        "nv": "present.0.value",
    }
    for value in (*model.graph.input, *model.graph.output):
        value.name = text.get(value.name, value.name)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [text.get(name, name) for name in names]
    onnx.save(model, tmp_path / "net.onnx")
    done = init(tmp_path)
    assert done.exit_code == 0, done.output
    (section,) = read_project(tmp_path / "mcmc.toml").models
    # The value that comes out has another rank, so that it cannot be the past of the next step.
    assert section.settings.state == (("past_key_values.0.key", "present.0.key"),)
    assert section.settings.dims == {"batch": 1}
    found = {profile.name: profile.settings.dims for profile in section.profiles}
    assert found == {
        "prefill": {"sequence": 128, "past_len": 0, "all": 128},
        "decode": {"sequence": 1, "past_len": 127, "all": 128},
    }


def test_groups_by_pattern(tmp_path):
    for name in ("a/one", "a/two", "vision_1", "vision_2"):
        write(tmp_path / f"{name}.onnx", FIXED if name.startswith("a/") else RELU)
    write(tmp_path / "other.onnx", FIXED.replace("x", "z"))
    (tmp_path / "vision_0.onnx").write_bytes(b"damaged")
    done = init(tmp_path, "--target", "mcm4", "--target", "mcm16")
    assert done.exit_code == 0, done.output
    data = tomllib.loads((tmp_path / "mcmc.toml").read_text())
    assert data["targets"] == ["mcm4", "mcm16"]
    assert [table["files"] for table in data["models"]] == [
        ["a/one.onnx", "a/two.onnx", "other.onnx"],
        "vision_*.onnx",
    ]
    assert data["models"][1]["exclude"] == ["vision_0.onnx"]
    assert '# "vision_0.onnx": MCM-I003: ' in (tmp_path / "mcmc.toml").read_text()
    assert "1 model left out that cannot be read" in done.stdout


def test_targets_are_loaded_and_named_from_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "models" / "net.onnx", FIXED)
    done = init("models", "--target", "mcm44")
    assert (done.exit_code, "MCM-U00" in done.stderr) == (1, True)
    assert not (tmp_path / "models" / "mcmc.toml").exists()
    described = resources.files("mcm_hardware.families.ring") / "targets" / "mcm4.toml"
    (tmp_path / "own.toml").write_bytes(described.read_bytes())
    done = init("models", "--target", "own.toml", "--target", "mcm4")
    assert done.exit_code == 0, done.output
    targets = read_project(tmp_path / "models" / "mcmc.toml").defaults.targets
    assert targets == ("../own.toml", "mcm4")


def test_the_same_bytes_again_and_only_with_force(tmp_path):
    write(tmp_path / "net.onnx", RELU)
    assert init(tmp_path).exit_code == 0
    first = (tmp_path / "mcmc.toml").read_bytes()
    refused = init(tmp_path)
    assert (refused.exit_code, "MCM-U021" in refused.stderr) == (1, True)
    done = init(tmp_path, "--force", "--format", "json")
    assert json.loads(done.stdout)["models"] == 1
    assert (tmp_path / "mcmc.toml").read_bytes() == first
    assert sorted(os.listdir(tmp_path)) == ["mcmc.toml", "net.onnx"]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.mkdir(), "MCM-U034"),
        (lambda path: path.touch(), "MCM-U041"),
        (lambda path: None, "MCM-U041"),
        (lambda path: write_bytes(path / "a.onnx"), "MCM-U034"),
    ],
)
def test_folders_that_hold_no_model(tmp_path, make, code):
    make(tmp_path / "x")
    done = init(tmp_path / "x")
    assert (done.exit_code, code in done.stderr) == (1, True)
    assert not (tmp_path / "x" / "mcmc.toml").exists()


def write_bytes(path):
    path.parent.mkdir()
    path.write_bytes(b"damaged")


def test_links_out_of_the_folder_and_names_that_are_no_text(tmp_path):
    write(tmp_path / "elsewhere.onnx", FIXED)
    write(tmp_path / "p" / "net.onnx", FIXED)
    (tmp_path / "p" / "out.onnx").symlink_to(tmp_path / "elsewhere.onnx")
    (tmp_path / "p" / "folder").symlink_to(tmp_path)
    with open(os.fsencode(tmp_path / "p") + b"/\xff.onnx", "wb"):
        pass
    done = init(tmp_path / "p")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "p" / "mcmc.toml").read_text()
    assert [section.files for section in read_project(tmp_path / "p" / "mcmc.toml").models] == [
        ("net.onnx",)
    ]
    assert '# "out.onnx": a link that leads out of the folder' in text
    assert "its name is not UTF-8" in text


def test_hostile_names_stay_what_they_are(tmp_path):
    names = ['say "hi"', "new\nline", "Grüße\u202e", "[a]*?", "back\\slash", "zoo:bert", "#x = 1"]
    for name in names:
        write(tmp_path / f"{name}.onnx", FIXED)
    dim = "d" * 10_000 + '"\n# ]'
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [dim, 4])],
        [value("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "long.onnx")
    done = init(tmp_path)
    assert done.exit_code == 0, done.output
    project = read_project(tmp_path / "mcmc.toml")
    listed = {file for section in project.models for file in section.files}
    assert {'say "hi".onnx', "new\nline.onnx", "Grüße\u202e.onnx", "./zoo:bert.onnx"} <= listed
    assert "[[]a][*][?].onnx" in listed
    assert {tuple(section.settings.dims) for section in project.models} == {(), (dim,)}


def test_what_toml_needs_escaped():
    for text in ('"', "\\", "\x00\x1f\x7f", "\u202e", "\U000e0001", "é", "a\tb\n"):
        assert tomllib.loads(f"{toml_key(text)} = {toml_text(text)}") == {text: text}
    assert toml_key("bare_Key-1") == "bare_Key-1"


NAMES = [
    ["a/net.onnx", "b/net.onnx", "c/net.onnx"],
    ["m/Net.onnx", "m/net.onnx", "m/NET.onnx", "m-net.onnx"],
    ["a/b.onnx", "A/b.onnx"],
    ["a/a.onnx", "a.onnx", "A.onnx"],
    ["a.onnx", "a/mcm36.onnx"],
    ["a.onnx", "a/mcm36.html.onnx"],
    ["b.onnx", "index.html.onnx", "Index.HTML/x.onnx"],
    ["a/b/c.onnx", "a-b/c.onnx", "a/b-c.onnx", "x/a-b-c.onnx"],
]
"""Models whose names differ by case or by the form of their path alone."""


@pytest.mark.parametrize("models", NAMES)
@pytest.mark.parametrize("alike", [True, False])
def test_a_build_takes_the_names_that_a_draft_gives(tmp_path, models, alike):
    found = Found(1, "a guess", True)
    for model in models:
        (tmp_path / model).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / model).touch()
    sizes = [Sizes() if alike else Sizes({f"n{i}": found}) for i in range(len(models))]
    drafts = [ModelDraft(m, s) for m, s in zip(sorted(models), sizes, strict=True)]
    path = tmp_path / "mcmc.toml"
    path.write_text(draft_text(path, ["mcm36"], drafts, Listing(tuple(models), ())))
    cells = cells_of(read_project(path), lambda _: True)
    assert sorted(cell.model for cell in cells) == sorted(models)


def test_targets_of_one_folder_are_refused(tmp_path):
    (tmp_path / "a.onnx").touch()
    with pytest.raises(CompileError) as caught:
        draft_text(
            tmp_path / "mcmc.toml",
            ["x/t.toml", "y/T.toml"],
            [ModelDraft("a.onnx")],
            Listing(("a.onnx",), ()),
        )
    assert [d.code for d in caught.value.diagnostics] == ["MCM-B008"]
