"""Whether pieces, run one after the other in onnxruntime, give what the whole gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from peer_cases.cases import Case

from mcm_compiler.contracts.partition import Ints
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import max_abs_error, open_session, run_session, same_bits

SEED = 0
"""Of the random input."""


@dataclass(frozen=True)
class Compared:
    """A chain beside the whole.

    Attributes:
        pieces: models that ran.
        equal: whether all outputs are equal to the bit.
        largest_error: between outputs; None where the chain did not run.
        fault: why it did not run; empty where it did.
    """

    pieces: int
    equal: bool
    largest_error: float | None
    fault: str = ""


class Whole:
    """A case's own outputs on one random input, with graph optimisations off."""

    def __init__(self, case: Case) -> None:
        self.proto = ir.to_proto(case.model)
        self.feeds: dict[str, Any] = random_inputs(case.model, SEED)
        self.outputs = run_session(open_session(self.proto), self.feeds)

    def against(self, models: Sequence[onnx.ModelProto | Path]) -> Compared:
        """Runs pieces in the order of what they read, and compares."""
        try:
            values = _values(models, self.feeds, set(self.outputs))
        except CompileError as error:
            return Compared(len(models), False, None, error.diagnostics[0].message)
        missing = [name for name in self.outputs if name not in values]
        if missing:
            fault = f"no piece can run that makes '{missing[0]}'"
            return Compared(len(models), False, None, fault)
        return self.beside(values, len(models))

    def beside(self, values: dict[str, Any], pieces: int) -> Compared:
        """Compares outputs by name, which something else computed."""
        pairs = [(values[name], whole) for name, whole in self.outputs.items()]
        equal = all(same_bits(left, right) for left, right in pairs)
        error = max(max_abs_error(left, right) for left, right in pairs)
        return Compared(pieces, equal, float(error))


def _values(
    models: Sequence[onnx.ModelProto | Path], feeds: dict[str, Any], kept: set[str]
) -> dict[str, Any]:
    """All that pieces hand out, each run once all that it reads is there."""
    values = dict(feeds)
    waiting = list(models)
    while waiting:
        for model in waiting:
            session = open_session(model)
            if all(one.name in values for one in session.get_inputs()):
                values |= run_session(session, values)
                waiting.remove(model)
                break
        else:
            return {name: value for name, value in values.items() if name in kept}
    return values


def pieces_of(case: Case, proto: onnx.ModelProto, chip_of: Ints) -> Iterator[onnx.ModelProto]:
    """One model per chip, in the order of the chips.

    Ops of clonable units, and those that read weights alone, stand on each chip that reads them.

    Args:
        case: what is divided.
        proto: its graph.
        chip_of: `[N]`; for a clonable unit the chip whose copy hands its values out.
    """
    problem = case.problem
    unit_of = {name: u for u, names in enumerate(problem.members) for name in names}
    nodes = [(node, unit_of.get(node.name)) for node in proto.graph.node]
    maker = {name: (node, unit) for node, unit in nodes for name in node.output if name}
    for chip in np.unique(chip_of[~problem.clonable]).tolist():
        own = {node.name for node, unit in nodes if unit is not None and chip_of[unit] == chip}
        held, waiting = set(own), [node for node, _ in nodes if node.name in own]
        while waiting:
            for name in waiting.pop().input:
                node, unit = maker.get(name, (None, None))
                if node is None or node.name in held:
                    continue
                if unit is None or problem.clonable[unit]:
                    held.add(node.name)
                    waiting.append(node)
        yield _piece(proto, own, held)


def _piece(proto: onnx.ModelProto, own: set[str], held: set[str]) -> onnx.ModelProto:
    graph = proto.graph
    inside = [node for node in graph.node if node.name in held]
    outside = [node for node in graph.node if node.name not in own]
    made = {name for node in inside for name in node.output}
    read = {name for node in inside for name in node.input if name}
    told = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
    weights = [w for w in graph.initializer if w.name in read]
    known = made | {w.name for w in weights}
    wanted = {name for node in outside for name in node.input} | {v.name for v in graph.output}
    handed = [n for node in inside if node.name in own for n in node.output if n in wanted]
    return onnx.helper.make_model(
        onnx.helper.make_graph(
            inside,
            "piece",
            [told[name] for name in sorted(read - known)],
            [told[name] for name in handed],
            weights,
        ),
        opset_imports=list(proto.opset_import),
        ir_version=proto.ir_version,
        functions=list(proto.functions),
    )
