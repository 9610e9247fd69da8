"""The formula of every op type that is modelled."""

from __future__ import annotations

from collections.abc import Mapping

from mcm_hardware.op_costs import (
    attention,
    classical_learning,
    convolutions,
    data_movement,
    elementwise,
    matrix_products,
    normalization,
    pooling,
    quantization,
    recurrent,
    reductions,
    sequences_and_text,
    signal,
)
from mcm_hardware.op_costs.work import Formula

_Table = dict[tuple[str, str], Formula]


def _joined(families: Mapping[str, tuple[Mapping[str, Formula], ...]]) -> _Table:
    table: _Table = {}
    for domain, parts in families.items():
        for op_type, formula in (item for part in parts for item in part.items()):
            if (domain, op_type) in table:
                raise ValueError(f"two formulas for '{op_type}' of domain '{domain}'")
            table[domain, op_type] = formula
    return table


FORMULA_TABLE: Mapping[tuple[str, str], Formula] = _joined(
    {
        "": (
            attention.FORMULAS,
            convolutions.FORMULAS,
            data_movement.FORMULAS,
            elementwise.FORMULAS,
            matrix_products.FORMULAS,
            normalization.FORMULAS,
            pooling.FORMULAS,
            quantization.FORMULAS,
            recurrent.FORMULAS,
            reductions.FORMULAS,
            sequences_and_text.FORMULAS,
            signal.FORMULAS,
        ),
        "ai.onnx.ml": (classical_learning.ML_FORMULAS,),
        "ai.onnx.preview": (attention.PREVIEW_FORMULAS,),
        "com.microsoft": (
            attention.MICROSOFT_FORMULAS,
            convolutions.MICROSOFT_FORMULAS,
            data_movement.MICROSOFT_FORMULAS,
            elementwise.MICROSOFT_FORMULAS,
            matrix_products.MICROSOFT_FORMULAS,
            normalization.MICROSOFT_FORMULAS,
            pooling.MICROSOFT_FORMULAS,
            quantization.MICROSOFT_FORMULAS,
            recurrent.MICROSOFT_FORMULAS,
            reductions.MICROSOFT_FORMULAS,
            sequences_and_text.MICROSOFT_FORMULAS,
            signal.MICROSOFT_FORMULAS,
        ),
    }
)
"""Formulas by `(domain, op_type)`; control flow stands in `control_flow.CONTROL_FLOW`."""
