"""`mcmc diff`: two folders of a compile, or of a placement, held against each other."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m"
NET = """<ir_version: 10, opset_import: ["": 21]>
net (float[8, 64] x) => (float[8, WIDTH] y)
<float[64, 64] w, float[64, WIDTH] v> {
  h = MatMul (x, w)
  r = Relu (h)
  y = MatMul (r, v)
}"""


def run(*arguments, code=0):
    done = CliRunner().invoke(cli, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def write_net(path, names, width):
    model = onnx.parser.parse_model(NET.replace("WIDTH", str(width)))
    for name, shape in (("w", (64, 64)), ("v", (64, width))):
        data = np.full(shape, 0.01, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(data, name))
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    onnx.save(model, path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("diff")
    write_net(root / "old.onnx", ("first", "second", "third"), 64)
    write_net(root / "wide.onnx", (HOSTILE, "second", "third"), 4096)
    one = ("--target", "mcm4", "-O0", "--replicas", 1, "-o")
    run("compile", root / "old.onnx", *one, root / "old")
    run("compile", root / "wide.onnx", *one, root / "wide")
    run("compile", root / "old.onnx", "--pin", "third=0", *one, root / "pinned")
    run("place", root / "old.onnx", "-O0", "-o", root / "placed")
    return root


def compared(folders, a, b, *options, code=0):
    done = run("diff", folders / a, folders / b, "--format", "json", *options, code=code)
    return json.loads(done.stdout)


def test_a_changed_layer_is_named_as_the_cause(folders):
    found = compared(folders, "old", "wide")
    assert not found["same_file"]
    assert found["ops"]["by_name"] == 2
    assert found["ops"]["by_structure"] == [["first", HOSTILE]]
    assert found["ops"]["only_a"] == found["ops"]["only_b"] == []
    assert found["comparison"]["change"] < -0.2
    assert "'third' on chip" in found["comparison"]["reasons"][0]
    slower = found["times"][0]
    assert (slower["name"], slower["state"]) == ("third", "slower")
    assert found["loads"][0]["kind"] == "compute"
    text = run("diff", folders / "old", folders / "wide").stdout
    assert text.startswith(" A, before  ")
    assert f"B is {-found['comparison']['change']:.1%}".replace("%", " %") in text
    assert "ops matched: 2 by name, 1 by structure; only in A: 0; only in B: 0" in text
    assert "\x1b[31m" not in text


def test_what_moved_and_which_pin_was_given(folders):
    found = compared(folders, "old", "pinned")
    assert found["same_file"]
    (moved,) = found["moved"]
    assert (moved["a"], moved["b"], moved["ops"]) == (["chip 1"], ["chip 0"], ["third"])
    assert {"kind": "pin", "name": "third", "a": None, "b": "third=0"} in found["settings"]
    text = run("diff", folders / "old", folders / "pinned").stdout
    assert "1 of 3 ops runs on another chip" in text
    assert "from chip 1 to chip 0" in text
    assert "pin third" in text


def test_a_folder_is_as_fast_as_itself(folders):
    found = compared(folders, "old", "old", "--max-regression", "0%")
    assert found["comparison"]["change"] == 0
    assert found["comparison"]["reasons"] == found["settings"] == found["moved"] == []
    assert found["times"] == []
    text = run("diff", folders / "old", folders / "old").stdout
    assert "No change" in text
    assert "no op runs on another chip" in text


def test_the_exit_code_tells_of_a_regression_where_asked(folders):
    a, b = folders / "old", folders / "wide"
    done = run("diff", a, b, "--max-regression", "1%", code=1)
    assert "error[MCM-U031]: throughput fell by" in done.stderr
    run("diff", a, b, "--max-regression", "99%")
    run("diff", b, a, "--max-regression", "0%")
    run("diff", a, b)


def test_two_placements(folders):
    found = compared(folders, "placed", "placed")
    assert (found["per"], found["place"]) == ("step", "device")
    assert found["comparison"]["change"] == 0
    assert "steps per second" in run("diff", folders / "placed", folders / "placed").stdout


def test_the_page_holds_names_as_text(folders, tmp_path):
    path = tmp_path / "diff.html"
    run("diff", folders / "old", folders / "wide", "--html", path)
    page = path.read_text()
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;\\x1b[31m" in page
    assert "Is it faster?" in page
    run("diff", folders / "old", folders / "wide", "--html", path, code=1)
    run("diff", folders / "old", folders / "wide", "--html", path, "--force")


def test_what_cannot_be_compared(folders, tmp_path):
    old = folders / "old"
    refused = run("diff", old, folders / "placed", code=1).stderr
    assert "error[MCM-U080]" in refused
    assert "one is of a package, the other of a host" in refused
    (tmp_path / "empty").mkdir()
    assert "MCM-A004" in run("diff", old, tmp_path / "empty", code=1).stderr
    assert "MCM-A004" in run("diff", tmp_path / "none", old, code=1).stderr
    newer = tmp_path / "newer"
    shutil.copytree(old, newer)
    manifest = newer / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    assert "schema version" in run("diff", old, newer, code=1).stderr
    unfinished = tmp_path / "unfinished"
    shutil.copytree(old, unfinished)
    (unfinished / "program.json").unlink()
    assert "error[MCM-A0" in run("diff", old, unfinished, code=1).stderr


def test_without_a_simulation_nothing_is_known_about_speed(folders, tmp_path):
    passes = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,emit"
    target = ("--target", "mcm4", "-O0", "--passes", passes, "-o", tmp_path / "out")
    run("compile", folders / "old.onnx", *target)
    done = run("diff", folders / "old", tmp_path / "out", code=1)
    assert "error[MCM-U080]: the folder cannot be compared" in done.stderr
