"""Sizes on one command line for many models: each takes those that it has a use for."""

from __future__ import annotations

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from mcm_compiler.ci.batch import options_of_each
from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions


def write(path, shape, name="x"):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", [name], ["y"])],
        "g",
        [value(name, TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return str(path)


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    return [
        write(folder / "a.onnx", ["batch", 4]),
        write(folder / "b.onnx", ["batch", "seq"]),
        write(folder / "c.onnx", [2, None], "z"),
    ]


def test_each_model_takes_the_sizes_that_it_has_a_use_for(models):
    options = CompileOptions(dims={"batch": 1, "seq": 8}, shapes={"z": (2, 3)}, seed=7)
    found = options_of_each([*models, "zoo:bert-tiny"], options)
    assert [o.dims for o in found] == [{"batch": 1}, {"batch": 1, "seq": 8}, {}, {}]
    assert [o.shapes for o in found] == [{}, {}, {"z": (2, 3)}, {}]
    assert all(o.seed == 7 for o in found)


def test_a_dimension_may_be_made_of_others(models, tmp_path):
    made = write(tmp_path / "made.onnx", ["2*batch", "past + new"])
    options = CompileOptions(dims={"batch": 1, "past": 3, "new": 1, "seq": 8})
    *_, found = options_of_each([*models, made], options)
    assert found.dims == {"batch": 1, "past": 3, "new": 1}


def test_a_name_that_none_has_is_an_error_before_anything_is_compiled(models, tmp_path):
    with pytest.raises(CompileError) as refused:
        options_of_each(models, CompileOptions(dims={"bacth": 1}, shapes={"w": (1,)}))
    assert [d.code for d in refused.value.diagnostics] == ["MCM-U005", "MCM-U005"]
    assert refused.value.diagnostics[0].hint == "did you mean 'batch'?"
    assert "they have: 'x', 'z'" in refused.value.diagnostics[1].message
    out = tmp_path / "out"
    done = CliRunner().invoke(
        cli, ["compile", *models, "--dim", "bacth=1", "--target", "mcm4", "-o", str(out)]
    )
    assert (done.exit_code, out.exists()) == (1, False)
    assert "MCM-U005" in done.stderr


def test_a_damaged_model_does_not_stop_the_others(models, tmp_path):
    damaged = tmp_path / "models" / "d.onnx"
    damaged.write_bytes(b"no model")
    options = CompileOptions(dims={"batch": 1, "elsewhere": 2})
    found = options_of_each([*models, str(damaged)], options)
    # Nothing says that the size is not for the one that cannot be read.
    assert [o.dims for o in found] == [{"batch": 1}, {"batch": 1}, {}, options.dims]


def test_nothing_is_read_without_sizes(models):
    options = CompileOptions()
    assert options_of_each(["not-there.onnx", *models], options) == (options,) * 4


def test_a_folder_compiles_with_the_sizes_of_all(models, tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    arguments = ["--dim", "batch=1", "--dim", "seq=8", "--shape", "z=2,3", "--target", "mcm4"]
    done = CliRunner().invoke(
        cli, ["compile", str(tmp_path / "models"), *arguments, "-O0", "-o", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("3 models: 3 ok, 0 failed\n")
