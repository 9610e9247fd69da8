"""Chips and model under onnxruntime's own session options, with all its optimisations.

They round otherwise in a part of a model than in the whole, so that numbers may differ; but each
chip has to load and run where the model does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from mcm_compiler.contracts.verification import OutputComparison
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.runner import (
    RunStoppedError,
    max_abs_error,
    run_batches,
    same_bits,
)
from mcm_compiler.graph.structure import all_nodes
from mcm_compiler.text.units import bytes_text

MAX_STOCK_BYTES = 1 << 28
"""Files of a folder whose models are compared."""


def compare_stock(
    model: Path,
    folder: Path,
    chain: Callable[..., list[dict[str, Any]]],
    feeds: Mapping[str, Any],
    outputs: Sequence[str],
) -> tuple[tuple[OutputComparison, ...], str]:
    """The comparison of one inference, or why it was not made.

    Args:
        model: a file of the model.
        folder: of the chips' models.
        chain: runs the chips.
        feeds: inputs.
        outputs: that are compared.

    Raises:
        CompileError: MCM-V025 if the chips alone do not run, or make something else altogether.
    """
    if sum(path.stat().st_size for path in folder.glob("*.onnx*")) > MAX_STOCK_BYTES:
        return (), f"the models have more than {bytes_text(MAX_STOCK_BYTES)}"
    if _crashes(onnx.load(model, load_external_data=False)):
        return (), "onnxruntime crashes where training leaves out a running statistic"
    try:
        expected = run_batches(model, [feeds], outputs, stock=True)[0]
    except CompileError as error:
        return (), f"onnxruntime does not run the file itself ({error.diagnostics[0].code})"
    try:
        actual = chain(outputs, [feeds], stock=True)[0]
    except RunStoppedError as error:
        return (), error.diagnostics[0].message
    except CompileError as error:
        fault = error.diagnostics[0]
        raise _not_under_stock_options(fault.message, fault.at) from error
    pairs = {name: (expected[name], actual[name]) for name in outputs}
    found = tuple(
        OutputComparison(name, same_bits(*pair), max_abs_error(*pair), 0.0)
        for name, pair in pairs.items()
    )
    if (broken := next((o for o in found if o.max_abs_error == float("inf")), None)) is not None:
        differs = "the output has another type, shape or set of finite numbers than the model's"
        raise _not_under_stock_options(differs, f"output {quote(broken.output)}")
    return found, ""


def _crashes(proto: onnx.ModelProto) -> bool:
    """Whether a file has an op that ends the process; an import names what such ops leave out."""
    return any(
        node.op_type == "BatchNormalization"
        and any(
            one.name == "training_mode" and (one.i or one.ref_attr_name) for one in node.attribute
        )
        and not (len(node.output) == 3 and all(node.output))
        for graph in (proto.graph, *proto.functions)
        for node in all_nodes(graph)
    )


def _not_under_stock_options(reason: str, place: str | None) -> CompileError:
    return CompileError(
        Diagnostic(
            "MCM-V025",
            f"under onnxruntime's own session options the model runs, and the chips do not: "
            f"{reason}",
            at=place,
            hint="deploy the chips with graph optimisations off, and report the model",
        )
    )
