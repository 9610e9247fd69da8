"""Chips of packages that were given nothing to do are laid out, too."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.fabrics.fabric import same_problem
from mcm_compiler.contracts.fabrics.legality import faults_of_problem
from mcm_compiler.contracts.fabrics.target import UnitChoice
from mcm_compiler.diagnostics import CompileError
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_passes.families.fabric.chip_mappings import chip_problem


def _model(body: str) -> ir.Model:
    text = f'<ir_version: 10, opset_import: ["" : 20]> chip {body}'
    return ir.serde.deserialize_model(onnx.parser.parse_model(text))


def test_idle_chips_pass_one_element_on() -> None:
    target = fabric_12()
    known = _model("() => (float[2] y) <float[2] w = {1, 2}> { y = Exp(w) }")
    dead = _model("(float[64,64] x) => () { y = Exp(x) }")
    problems = [chip_problem(target, model) for model in (known, dead)]
    for problem in problems:
        assert problem.name == "chip"
        assert faults_of_problem(problem, target.fabric) == []
    assert same_problem(*problems)


def test_other_chips_are_as_the_target_lays_them_out() -> None:
    target = fabric_12()
    busy = _model("(float[64,64] x) => (float[64,64] y) { y = Exp(x) }")
    assert same_problem(chip_problem(target, busy), target.mapping_problem(busy, UnitChoice()))
    with pytest.raises(CompileError) as caught:
        chip_problem(target, _model("(float[n] x) => (float[n] y) { y = Exp(x) }"))
    assert [fault.code for fault in caught.value.diagnostics][:1] == ["MCM-M003"]
