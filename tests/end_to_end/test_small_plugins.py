"""Plug-ins of at most 20 lines, as the documents show them, and what each changes in a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.options import DEFAULT_PIPELINE
from tests.end_to_end.conftest import Mcmc

EXAMPLES = Path(__file__).parents[2] / "docs" / "how-to" / "examples"
OP_COST, FUSION_RULE = EXAMPLES / "op_cost.py", EXAMPLES / "fusion_rule.py"
STRATEGY, COST_MODEL = EXAMPLES / "one_chip.py", EXAMPLES / "half_speed.py"
COMPILE = ("compile", "model.onnx", "--target", "mcm4", "-O0", "--format", "json")
OTHER_COST = """
from mcm_compiler import register
from mcm_hardware.op_costs.work import Work

register("op-cost", "{op}")(lambda node: {work})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds `model.onnx`: a Transpose and MatMul, and an op of com.microsoft without a formula."""
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.standard_normal((8, 64)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], "transpose"),
        helper.make_node("MatMul", ["t", "w"], ["scores"], "matmul"),
        helper.make_node("NGramRepeatBlock", ["ids", "scores"], ["y"], "block",
                         domain="com.microsoft", ngram_size=3),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "blocked",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 4]),
         helper.make_tensor_value_info("ids", TensorProto.INT64, [4, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 64])],
        [weight],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    folder = tmp_path_factory.mktemp("small")
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), folder / "model.onnx")
    return folder


def _compiled(mcmc: Mcmc, folder: Path, name: str, *options: object) -> dict[str, Any]:
    done = mcmc(*COMPILE, *options, "-o", name, cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    plugins = [option for option in options if str(option).endswith(".py")]
    given = [word for plugin in plugins for word in ("--plugin", plugin)]
    checked = mcmc("check", name, *given, cwd=folder)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    return json.loads((folder / name / "report.json").read_text())


@pytest.fixture(scope="module")
def plain(mcmc: Mcmc, folder: Path) -> dict[str, Any]:
    return _compiled(mcmc, folder, "plain")


def _codes(report: dict[str, Any]) -> set[str]:
    return {found["code"] for found in report["diagnostics"]}


@pytest.mark.parametrize("file", [OP_COST, FUSION_RULE, STRATEGY, COST_MODEL])
def test_each_has_at_most_20_lines(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 20


def test_the_cost_of_an_op(mcmc: Mcmc, folder: Path, plain: dict[str, Any]) -> None:
    found = _compiled(mcmc, folder, "op_cost", "--plugin", OP_COST)
    assert "MCM-P010" in _codes(plain)
    assert "MCM-P010" not in _codes(found)
    # 4 x 512 tokens, 3 places each, and 4 x 64 scores on the 128 lanes of mcm4 at 500 MHz.
    lanes, clock_hz = 128, 5e8
    vector_s = (4 * 512 * 3 + 4 * 64) / (lanes * clock_hz)
    before, after = (report["chips"][0]["engine_s"] for report in (plain, found))
    assert after["vector"] == pytest.approx(before["vector"] + vector_s)


def test_two_costs_combine_and_the_folder_needs_both(mcmc: Mcmc, folder: Path) -> None:
    (folder / "other.py").write_text(OTHER_COST.format(op="com.acme::Other", work="Work()"))
    both = _compiled(mcmc, folder, "two", "--plugin", OP_COST, "--plugin", "other.py")
    one = json.loads((folder / "op_cost" / "report.json").read_text())
    assert both["chips"] == one["chips"]


@pytest.mark.parametrize(
    ("op", "work", "code", "part"),
    [
        ("com.microsoft::NGramRepeatBlock", "Work()", "MCM-X001", "op_cost.py"),
        ("Transpose", "Work()", "MCM-X001", "mcm-compiler"),
        ("com.microsoft::NGramRepeatBlock", "1 / 0", "MCM-X007", "ZeroDivisionError"),
        ("com.microsoft::NGramRepeatBlock", "3", "MCM-X007", "not a Work"),
        ("com.microsoft::NGramRepeatBlock", "Work(lane_ops=-1)", "MCM-X007", "not an integer"),
        ("com.microsoft::NGramRepeatBlock", "Work(lane_ops=float('nan'))", "MCM-X007", "integer"),
        ("com.microsoft::NGramRepeatBlock", "Work(gemms=3)", "MCM-X007", "TypeError"),
        ("com.microsoft::NGramRepeatBlock", "Work(reads=((0,),))", "MCM-X007", "ValueError"),
        ("com.microsoft::NGramRepeatBlock", "Work(data_share=2.0)", "MCM-X007", "data_share"),
    ],
)
def test_costs_that_are_refused(
    mcmc: Mcmc, folder: Path, op: str, work: str, code: str, part: str
) -> None:
    (folder / "bad.py").write_text(OTHER_COST.format(op=op, work=work))
    plugins = ("--plugin", OP_COST, "--plugin", "bad.py") if code == "MCM-X001" else (
        "--plugin", "bad.py")  # fmt: skip
    done = mcmc("compile", "model.onnx", "--target", "mcm4", *plugins, "-o", "bad", cwd=folder)
    assert done.returncode == 1
    assert f"error[{code}]" in done.stderr
    assert part in done.stderr
    assert not (folder / "bad").exists()


def test_a_fusion_rule(mcmc: Mcmc, folder: Path, plain: dict[str, Any]) -> None:
    found = _compiled(mcmc, folder, "fused", "--plugin", FUSION_RULE)
    assert (plain["chips"][0]["kernels"], found["chips"][0]["kernels"]) == (3, 2)
    named = "fuse{rules=acme_transposed_matmul;gelu}"
    for rules, kernels in ((named, 2), ("fuse{rules=gelu}", 3)):
        passes = DEFAULT_PIPELINE.replace("fuse", rules, 1)
        some = _compiled(
            mcmc, folder, f"rules{rules.count(';')}{kernels}{len(rules)}",
            "--plugin", FUSION_RULE, "--passes", passes,
        )  # fmt: skip
        assert some["chips"][0]["kernels"] == kernels


@pytest.mark.parametrize(
    ("rule", "code", "part"),
    [
        ('"a", frozenset({"Transpose"}), lambda g, p: [p, -1]', "MCM-X007", "position"),
        ('"a", frozenset({"Transpose"}), lambda g, p: [p, 99]', "MCM-X007", "position"),
        ('"a", frozenset({"Transpose"}), lambda g, p: ["x", p]', "MCM-X007", "position"),
        ('"a", frozenset({"Transpose"}), lambda g, p: 1 / 0', "MCM-X007", "ZeroDivision"),
        ('"a", frozenset(), print, before="none"', "MCM-X007", "before='none'"),
        ('"gelu", frozenset(), print', "MCM-X001", "mcm-compiler"),
    ],
)
def test_fusion_rules_that_are_refused(
    mcmc: Mcmc, folder: Path, rule: str, code: str, part: str
) -> None:
    (folder / "bad_rule.py").write_text(
        "from mcm_compiler import register\n"
        "from mcm_passes.rewriting.fusion_rules.rule import FusionRule\n"
        f"register('fusion-rule')(FusionRule({rule}))\n"
    )
    done = mcmc("opt", "model.onnx", "--passes", "fuse", "--plugin", "bad_rule.py", cwd=folder)
    assert done.returncode == 1
    assert f"error[{code}]" in done.stderr
    assert part in done.stderr


def test_a_strategy(mcmc: Mcmc, folder: Path) -> None:
    options = ("--partitioner", "acme_one_chip", "--replicas", "1")
    found = _compiled(mcmc, folder, "one", "--plugin", STRATEGY, *options)
    assert found["strategy"] == "acme_one_chip"
    assert [chip["ops"] for chip in found["chips"]] == [3]


def test_a_cost_model(mcmc: Mcmc, folder: Path, plain: dict[str, Any]) -> None:
    found = _compiled(
        mcmc, folder, "slow", "--plugin", COST_MODEL, "--cost-model", "acme_half_speed"
    )
    assert found["cost_model"] == "acme_half_speed"
    assert found["chips"][0]["busy_s"] == pytest.approx(2 * plain["chips"][0]["busy_s"])
