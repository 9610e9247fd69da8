"""The formula of every op type that is modelled: those of ONNX and of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import cast

from mcm_compiler.registry import OP_COSTS
from mcm_hardware.op_costs import (
    attention,
    classical_learning,
    convolutions,
    data_movement,
    elementwise,
    matrix_products,
    reductions,
    signal_and_text,
)
from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Formula, Formulas, Work, joined, work_fault

FORMULA_TABLE: Mapping[tuple[str, str], Formula] = joined(
    attention.FORMULAS,
    convolutions.FORMULAS,
    data_movement.FORMULAS,
    elementwise.FORMULAS,
    matrix_products.FORMULAS,
    reductions.FORMULAS,
    signal_and_text.FORMULAS,
    classical_learning.FORMULAS,
)
"""Formulas by `(domain, op_type)`; control flow is in `work.CONTROL_FLOW`."""

ONNX_COSTS: Mapping[str, Formula] = {
    f"{domain}::{op_type}" if domain else op_type: formula
    for (domain, op_type), formula in FORMULA_TABLE.items()
}
"""The same by operator, such as `Softmax` or `com.microsoft::Gelu`."""


def op_formulas() -> Mapping[tuple[str, str], Formula]:
    """Formulas by `(domain, op_type)`, with those of plug-ins.

    Raises:
        CompileError: MCM-X001 if two distributions or files have a formula for one operator,
            MCM-X003 or MCM-X008 for an entry point that holds no formulas.
    """
    return _op_formulas(OP_COSTS.changes)


@lru_cache(maxsize=1)
def _op_formulas(_changes: int) -> Formulas:
    table: Formulas = {}
    for operator, (formula, _origin) in OP_COSTS.held(callable).items():
        domain, _, op_type = operator.rpartition("::")
        own = ONNX_COSTS.get(operator) is formula
        table[domain, op_type] = formula if own else partial(_checked, operator, formula)
    return table


def _checked(operator: str, formula: Formula, node: NodeShapes) -> Work:
    """Work that a formula of others gives.

    Raises:
        CompileError: MCM-X007 if it fails, or gives anything else.
    """
    with OP_COSTS.at_work(operator):
        work = formula(node)
        if fault := work_fault(cast("object", work)):
            raise ValueError(fault)
        return work
