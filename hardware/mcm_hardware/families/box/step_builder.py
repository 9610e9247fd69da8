"""From an ONNX graph to what there is to place of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.box import INPUT, StepProblem, common_devices
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.states import StatePair
from mcm_hardware.chip.op_support import op_name
from mcm_hardware.families.box.box_file import BoxSpec
from mcm_hardware.families.box.step_parts import op_times, step_parts

_NUMBERED = re.compile(
    r"(?:^|\.)(?:"
    r"(?:layers?|h|blocks?|stages?|features|cells?|lstm|gru|rnn)[._]?\d+(?:\.\d+)?"
    r"|(?:mixed|conv2d|inception)_?\d+[a-z]?"
    r")(?=[._]|$)",
    re.IGNORECASE,
)
_FIRST = re.compile(r"embed|attention|(?:^|\.)(?:w[tp]e|stem)(?=[._]|$)", re.IGNORECASE)
_LAST = re.compile(
    r"softmax|logits|projection|classifier|(?:^|\.)(?:lm_)?(?:head|loss|fc|pooler)(?=[._]|$)",
    re.IGNORECASE,
)


def layers_of(names: Sequence[str]) -> Ints:
    """`[N]`, the layer of each op, or -1.

    A layer is a numbered scope such as `encoder.layer.3`, `layer1.0`, `h.2` or `Mixed_7c`; layers
    count in the order in which their first ops stand. Names of embeddings, and of attention outside
    numbered scopes, mean the first layer below the same outermost scope, or of all; names of
    projections and losses mean the last one.
    A gradient's op, `grad/NAME/...`, is of the layer of the op `NAME`, and what clips and updates
    a variable, `clip/NAME/...` and `update/NAME/...`, of the layer of the variable.

    Args:
        names: of the ops, in a topological order.
    """
    number_of: dict[str, int] = {}
    first_of: dict[str, int] = {}
    plain = [_plain(name) for name in names]
    layers = np.full(len(names), -1, np.int32)
    for n, name in enumerate(plain):
        match = _NUMBERED.search(name)
        if match is not None:
            layers[n] = number_of.setdefault(name[: match.end()].lower(), len(number_of))
            first_of.setdefault(name.partition(".")[0], int(layers[n]))
    if not number_of:
        return layers
    for n in np.flatnonzero(layers < 0).tolist():
        if _FIRST.search(plain[n]):
            layers[n] = first_of.get(plain[n].partition(".")[0], 0)
        elif _LAST.search(plain[n]):
            layers[n] = len(number_of) - 1
    return layers


def _plain(name: str) -> str:
    """The name with its scopes behind dots, without what training put in front of it."""
    name = name.removeprefix("grad/").removeprefix("clip/").removeprefix("update/")
    return ".".join(part for part in name.split("/") if part)


def build_step(
    graph: ir.Graph,
    states: Sequence[StatePair],
    spec: BoxSpec,
    chosen: Mapping[str, CostModel] | None = None,
) -> StepProblem:
    """The ops of a graph, with their times in a box.

    What depends on no input is there before the step: it is no op, and what others read of it are
    weights that lie ready. Values that nobody reads and that are no outputs are left out.

    Args:
        graph: with static shapes, in topological order; left unchanged.
        states: its variables: graph inputs, and the outputs that follow them.
        spec: the box.
        chosen: cost models that hold instead of those of the box, by kind of device.

    Raises:
        CompileError: MCM-D010 for ops that no device runs, one diagnostic per op type; MCM-D011 for
            values of unknown size; as the chosen cost models.
    """
    parts = step_parts(graph, states)
    box = spec.box
    times = np.zeros((len(parts.names), len(spec.kinds)))
    of_nodes = times[len(parts.names) - len(parts.nodes) :]
    of_nodes[:] = op_times(parts.nodes, spec.kinds, chosen or {})
    check_runs(parts.nodes, of_nodes, spec)
    allowed = np.isfinite(times)[:, box.kind_of]
    inputs = np.array([kind == INPUT for kind in parts.op_types], np.bool_)
    allowed[inputs] = False
    allowed[inputs, box.host] = True
    first = [parts.first_of(op) for op in range(len(parts.names))]
    together = np.unique(first, return_inverse=True)[1].reshape(-1).astype(np.int32)
    # Some device is left: of ops that do not run anywhere, a set has one at most.
    allowed = common_devices(together, allowed)[together]
    return StepProblem(
        names=tuple(parts.names),
        op_types=tuple(parts.op_types),
        time_s=times,
        value_names=tuple(parts.value_names),
        value_bytes=np.array(parts.value_bytes, np.int64),
        producer=np.array(parts.producer, np.int32),
        view_of=np.array(parts.view_of, np.int32),
        stays=np.array(parts.stays, np.bool_),
        kept=np.array(parts.kept, np.bool_),
        read_begin=np.cumsum([0, *map(len, parts.reads)]).astype(np.int64),
        reads=np.array([v for values in parts.reads for v in sorted(values)], np.int32),
        together=together,
        allowed=allowed,
        layer=_spread(layers_of(parts.names), together),
    )


def check_runs(nodes: Sequence[ir.Node], times: Floats, spec: BoxSpec) -> None:
    """Checks that some device runs each op.

    Raises:
        CompileError: MCM-D010, one diagnostic per op type.
    """
    lost = [nodes[n] for n in np.flatnonzero(~np.isfinite(times).any(axis=1)).tolist()]
    if not lost:
        return
    kinds = ", ".join(kind.name for kind in spec.kinds)
    counts = Counter(map(op_name, lost))
    firsts = {op_name(node): node for node in reversed(lost)}
    raise CompileError(
        [
            Diagnostic(
                "MCM-D010",
                f"no device of the box runs {quote(name)}, of which there are {count} in the "
                f"model; its kinds are {kinds}",
                at=f"op {quote(firsts[name].name or name)}",
            )
            for name, count in sorted(counts.items())
        ]
    )


def _spread(layer: Ints, together: Ints) -> Ints:
    """Layers, those of ops without one from what they run together with."""
    of_group = np.full(int(together.max(initial=-1)) + 1, -1, np.int32)
    np.maximum.at(of_group, together, layer)
    return np.where(layer >= 0, layer, of_group[together]).astype(np.int32)
