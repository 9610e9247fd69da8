"""Sizes of dimensions behind the files of a data set."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.components.cost_choice import TakesCostModel
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.json_text import UnreadableError
from mcm_passes.families.ring.learning.training_problems import (
    data_set,
    digest_of,
    each_size,
    partition_problem,
    sized_model,
    training_problems,
)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a.onnx", ("a.onnx",)),
        ("a.onnx{batch=8}", ("a.onnx{batch=8}",)),
        ("a.onnx{batch=1;8;1}", ("a.onnx{batch=1}", "a.onnx{batch=8}")),
        (
            "d/a.onnx { batch = 1;8, seq=2;3 }",
            ("d/a.onnx {batch =1,seq=2}", "d/a.onnx {batch =1,seq=3}",
             "d/a.onnx {batch =8,seq=2}", "d/a.onnx {batch =8,seq=3}"),
        ),
        ("zoo:bert{batch=1,layers=2}", ("zoo:bert{batch=1,layers=2}",)),
    ],
)  # fmt: skip
def test_an_entry_stands_for_a_model_of_each_size(text, entries):
    stripped = tuple(entry.replace(" ", "") for entry in entries)
    found = each_size(text)
    assert tuple(entry.replace(" ", "") for entry in found) == stripped
    assert all(each_size(entry) == (entry,) for entry in found)


def test_what_a_compile_takes():
    (entry,) = each_size("a.onnx{batch=8,dim.0=3}")
    assert sized_model(entry) == ("a.onnx", {"batch": 8, "dim.0": 3})
    assert sized_model("zoo:bert{layers=2}") == ("zoo:bert{layers=2}", {})


def test_a_file_may_have_braces_in_its_name(tmp_path):
    path = tmp_path / "a{x}"
    path.touch()
    assert each_size(str(path)) == (str(path),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a.onnx{}", "is no size"),
        ("a.onnx{batch}", "is no size"),
        ("a.onnx{batch=0}", "is no size"),
        ("a.onnx{batch=-1}", "is no size"),
        ("a.onnx{batch=1;}", "is no size"),
        ("a.onnx{=1}", "is no size"),
        ("a.onnx{b=1,b=2}", "has sizes twice"),
        ("a.onnx{b=" + ";".join(map(str, range(1, 18))) + ",c=" + ";".join(map(str, range(1, 18)))
         + "}", "stands for 289 sizes"),
    ],
)  # fmt: skip
def test_anything_else_in_braces_is_told(text, reason, tmp_path):
    with pytest.raises(UnreadableError, match=reason):
        each_size(text)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"train": [text], "validation": ["zoo:nmt"]}))
    with pytest.raises(CompileError, match=reason) as caught:
        data_set(str(path))
    assert caught.value.diagnostics[0].code == "MCM-L011"


def test_every_size_is_a_problem_of_its_own(tmp_path):
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "matmul")],
        "g",
        [value("x", TensorProto.FLOAT, ["batch", 64])],
        [value("y", TensorProto.FLOAT, None)],
        [weight],
    )
    path = tmp_path / "model.onnx"
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), path)
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"train": [f"{path}{{batch=1;512}}"], "validation": ["zoo:nmt"]}))
    models = data_set(str(mine)).train
    assert models == (f"{path}{{batch=1}}", f"{path}{{batch=512}}")
    problems, left_out = training_problems(models, load_target("mcm4"), lambda _: None)
    assert not left_out
    small, large = problems
    assert large.problem.compute_s.sum() > small.problem.compute_s.sum()
    assert digest_of([small]) != digest_of([large])


def test_a_target_that_takes_no_cost_model_is_trained_under_its_own():
    ring = load_target("mcm4")

    class Own:
        """All of a ring but for other cost models."""

        def __getattr__(self, name):
            if name in ("cost_choice", "with_cost_model"):
                raise AttributeError(name)
            return getattr(ring, name)

    assert not isinstance(Own(), TakesCostModel)
    own, named = (partition_problem("zoo:bert-tiny", target) for target in (Own(), ring))
    assert own.names == named.names
    assert own.copies is None
    assert (own.compute_s > named.compute_s).any()  # durations of the simulator
