"""The store of facts about values: types and shapes, as fields of the values of a model.

By onnx's inference, then by onnxruntime's symbolic one, then by one run in onnxruntime; each only
where the one before leaves values open, and none with the shapes that a file claims.

Types and shapes out of protobuf, straight into the values of a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.estimated_dims import is_estimated
from mcm_compiler.graph.limits import check_value_sizes
from mcm_compiler.graph.map_types import shape_from_proto, type_from_proto
from mcm_compiler.graph.static_shapes import shape_of_tensor, static_dims
from mcm_compiler.graph.structure import MAX_FAULTS, all_nodes
from mcm_compiler.ir.rewriting.writer import DataLocation, proto_with_references
from mcm_compiler.ir.shapes import doubtful_shapes
from mcm_compiler.ir.shapes.control_flow import fold_decided_branches
from mcm_compiler.ir.shapes.fixed_shapes import doubtful_values, fixed_shapes, open_ranks
from mcm_compiler.ir.shapes.isolated_inference import infer_in_child
from mcm_compiler.ir.shapes.open_sizes import leave_open
from mcm_compiler.ir.shapes.shapes_by_run import FileRuns, bound_shapes, learn_from_run
from mcm_compiler.ir.shapes.symbolic_inference import infer_symbolically

_CONTRADICTION = re.compile(
    r"\(op_type:(?P<op>[^,()]*)(?:, node name: (?P<name>.*?))?\): \[\w+Error\] "
    r"Inferred elem type differs[^:]*: "
    r"\((?P<inferred>[^)]*)\) vs \((?P<declared>[^)]*)\)",
    re.DOTALL,
)


def contradictions(inference_error: str) -> list[Diagnostic]:
    """Contradictions of onnx's strict inference to the declared element types.

    Args:
        inference_error: text of `onnx.shape_inference.InferenceError`.

    Returns:
        MCM-I032, one for each op whose result is declared with another element type, which
        onnxruntime refuses; other errors are not ours.
    """
    faults = [
        Diagnostic(
            "MCM-I032",
            f"the op makes element type {found['inferred']}, the model declares "
            f"{found['declared']}",
            at=f"node {quote(found['name'])} ({found['op']})"
            if found["name"]
            else f"a {found['op']} node",
        )
        for found in _CONTRADICTION.finditer(inference_error)
    ]
    return list(dict.fromkeys(faults))[:MAX_FAULTS]


MAX_PROPAGATED_BYTES = 1024
"""Weights up to this size take part in onnx's inference with their values."""

CHEAP_RUN_BYTES, CHEAP_RUN_OPS = 1 << 28, 1_000
"""Weights and ops up to which a run is cheaper than symbolic inference of claimed shapes."""


def infer_shapes(
    model: ir.Model,
    given: Mapping[str, Any] | None = None,
    declared: Mapping[str, ir.Shape] | None = None,
) -> list[Diagnostic]:
    """Completes types and shapes of the main graph's values in place: the store of facts.

    Shapes that the model claims for what its ops make are dropped first. What onnx's inference
    leaves open is asked of onnxruntime's symbolic inference, and what that leaves open is learnt
    from one run in onnxruntime with the open values as outputs. A shape from that run is static
    where it cannot depend on data (`fixed_shapes`), and otherwise symbolic with an estimated size
    (`estimated_dims`): the upper bound where one is known, or the size in this run. Where even the
    number of dimensions depends on data (`open_ranks`), no shape is learnt. Static shapes that no
    rule vouches for are compared with a run before anything is built on them
    (`contradicted_by_run`), and so are all where onnx's inference contradicts itself. A claim
    counts only where inference is silent, and as far as the run does not contradict it.

    Args:
        model: completed in place; without `declared` no op is added or removed.
        given: runtime values by graph input to run with; random ones where None.
        declared: shapes of the graph inputs in the file, where the sizes of an import are bound in
            `model`. Branches that sizes decide then take the place of their ops, and sizes are left
            open where onnxruntime takes the file but not the file with its sizes.

    Returns:
        Notes and warnings: MCM-I040 for values that stay unknown, MCM-I041 for shapes that come
        from onnxruntime, MCM-I044 for claims that do not hold. MCM-I050 for shapes that a run
        contradicts, MCM-I057 for sizes that are left open.

    Raises:
        CompileError: MCM-I032 where a declared element type contradicts the inferred one,
            MCM-I034 where a value is too large, MCM-I018 where onnx's inference crashes, MCM-I058
            where no run is possible with the sizes given.
    """
    store = _Inference(model, given, declared)
    while not store.complete():
        pass
    return store.notes


class _Inference:
    """Findings of `infer_shapes` so far.

    Attributes:
        notes: for the user, once all is found.
    """

    def __init__(
        self,
        model: ir.Model,
        given: Mapping[str, Any] | None,
        declared: Mapping[str, ir.Shape] | None,
    ) -> None:
        for value in model.graph.initializers.data.values():
            if value.const_value is not None:
                value.shape = shape_of_tensor(value.const_value)
                value.dtype = value.const_value.dtype
        doubtful_shapes.forget_mapped_bodies(model)
        self._model = model
        self._given = given
        self._declared = declared
        self._claims = doubtful_shapes.take_claims(model)
        self._restored: set[ir.Value] = set()
        self._compared: set[ir.Value] = set()
        self._opened: list[Diagnostic] = []
        self._corrected: list[Diagnostic] = []
        self.notes: list[Diagnostic] = []

    def complete(self) -> bool:
        """True if all was found; False where the model changed and has to be looked at again."""
        model, fold = self._model, self._declared is not None
        agrees = _infer_with_onnx(model)
        if fold and fold_decided_branches(model):
            return False
        self._restored |= (restored := doubtful_shapes.restore_claims(model, self._claims))
        if restored:
            _infer_with_onnx(model)
        _check_sizes(model)
        missing = open_values(model)
        if missing:
            infer_symbolically(model, missing)
            _check_sizes(model)
        runs = FileRuns(model, self._given, self._declared)
        claimed = set[ir.Value]() if _confirmed(model, self._restored) else self._restored
        doubtful = claimed.union(doubtful_values(model) if agrees else _sized(model))
        wanted = [v for v in _values(model) if v in doubtful and v not in self._compared]
        self._corrected += doubtful_shapes.contradicted_by_run(model, runs, wanted)
        unrun = open_values(model)
        if unrun:
            fixed = set[ir.Value]() if self._opened else fixed_shapes(model)
            learn_from_run(model, runs, unrun, fixed, open_ranks(model))
            bound_shapes(unrun, fixed)
            _check_sizes(model)
        if runs.results_found:
            self._compared.update(wanted)
        if fold and (unrun or wanted) and fold_decided_branches(model):
            return False
        if fold and not self._opened:
            if runs.needs_open_sizes:
                self._opened = leave_open(model, self._declared)
            elif unrun and not runs.loads_as_found():
                self._opened = leave_open(model, None)
            if self._opened:
                self._compared.clear()
                return False
        missing = list(dict.fromkeys((*missing, *unrun)))
        if missing:
            _infer_unread(model)
        still = [v for v in unrun if is_open(v)]
        self.notes = [
            *doubtful_shapes.claims_note(model, self._claims, self._restored),
            *self._opened,
            *self._corrected,
            *_notes(missing, unrun, still, runs),
        ]
        return True


def _confirmed(model: ir.Model, claimed: set[ir.Value]) -> bool:
    """True where symbolic inference finds all claimed shapes, so that no run has to confirm them.

    By induction: every claim follows from shapes before it, which are inferred or such claims.
    """
    weights = (v.const_value for v in model.graph.initializers.data.values())
    small = sum(w.nbytes for w in weights if w is not None) <= CHEAP_RUN_BYTES
    if not claimed or (small and len(model.graph) <= CHEAP_RUN_OPS):
        return False
    claims = {value: value.shape for value in claimed}
    for value in claimed:
        value.shape = None
    infer_symbolically(model, [value for value in _values(model) if value in claimed])
    found = {value: value.shape for value in claimed}
    for value, claim in claims.items():
        value.shape = claim
    return found == claims


def _sized(model: ir.Model) -> list[ir.Value]:
    """Values with a static shape, which cannot all be right where inference contradicts itself."""
    return [
        v
        for v in _values(model)
        if static_dims(v.shape) is not None and (v.is_graph_output() or v.uses())
    ]


def open_values(model: ir.Model) -> list[ir.Value]:
    """Values that matter and lack a type, or are tensors with a dimension that has no size."""
    return [v for v in _values(model) if (v.is_graph_output() or v.uses()) and is_open(v)]


def is_open(value: ir.Value) -> bool:
    """Return whether `value` lacks a type, or is a tensor with a dimension that has no size."""
    if not isinstance(value.type, ir.TensorType):
        return value.type is None
    if static_dims(value.shape) is not None:
        return False
    return value.shape is None or any(
        not isinstance(dim, int) and not is_estimated(dim) for dim in value.shape
    )


def _infer_unread(model: ir.Model) -> None:
    """Types of results that nobody reads, where they follow from what was learnt of others."""
    untyped = [value for value in _values(model) if value.type is None]
    inferred = _inferred(proto_for_inference(model))[0] if untyped else None
    if inferred is not None:
        take_types_of(untyped, inferred[0])


def _check_sizes(model: ir.Model) -> None:
    CompileError.raise_any(check_value_sizes(model))


def _notes(
    missing: list[ir.Value], unrun: list[ir.Value], still: list[ir.Value], runs: FileRuns
) -> list[Diagnostic]:
    """Notes about values whose types or shapes onnx's inference left open.

    Args:
        missing: those values.
        unrun: those of them that symbolic inference left open.
        still: those of them that the run left open.
        runs: of the model.

    Raises:
        CompileError: MCM-I040 where sizes are unknown because a run would take too much memory.
    """
    notes: list[Diagnostic] = []
    data = "the given" if runs.given else "random"
    ways = (
        (len(missing) - len(unrun), "from onnxruntime's symbolic inference"),
        (len(unrun) - len(still), f"from one run with {data} inputs"),
    )
    found = [f"{count} {way}" for count, way in ways if count]
    if found:
        notes.append(
            Diagnostic(
                "MCM-I041",
                f"onnx's inference leaves {len(missing)} shapes open; {' and '.join(found)}",
                at=f"value {quote(missing[0].name or '')}"
                + (" and others" if len(missing) > 1 else ""),
            )
        )
    if still:
        reason = f" ({runs.reason})" if runs.reason else ""
        counted = "" if runs.too_large else "; open dimensions count as 1"
        unknown = Diagnostic(
            "MCM-I040",
            f"the type or shape of {len(still)} values is unknown{reason}{counted}",
            at=f"value {quote(still[0].name or '')}",
            severity=Severity.ERROR if runs.too_large else Severity.WARNING,
        )
        if runs.too_large:
            raise CompileError(unknown)
        notes.append(unknown)
    return notes


def _values(model: ir.Model) -> Iterable[ir.Value]:
    for node in model.graph:
        yield from (v for v in node.outputs if v.name)


def _inferred(proto: onnx.ModelProto) -> tuple[list[onnx.GraphProto] | None, bool]:
    """Types that onnx infers, None where it cannot read the model; and whether all ops agree."""
    try:
        return infer_in_child(proto, strict=True), True
    except onnx.shape_inference.InferenceError as error:
        if faults := contradictions(str(error)):
            raise CompileError(faults) from None
    try:
        return infer_in_child(proto, strict=False), False
    except onnx.shape_inference.InferenceError:
        return None, True


def proto_for_inference(model: ir.Model) -> onnx.ModelProto:
    """A model in which large weights have a type and a shape alone.

    STFT says whether it is one-sided, which onnx takes for no where an op leaves it out.
    """
    proto = proto_with_references(
        model,
        lambda tensor: (
            DataLocation("weights", 0, tensor.nbytes)
            if tensor.nbytes > MAX_PROPAGATED_BYTES
            else None
        ),
    )
    for body in (proto.graph, *proto.functions):
        for node in all_nodes(body):
            if node.op_type == "STFT" and all(a.name != "onesided" for a in node.attribute):
                node.attribute.add(name="onesided", type=onnx.AttributeProto.INT, i=1)
    return proto


def _infer_with_onnx(model: ir.Model) -> bool:
    """Onnx's inference with data propagation; large weights take part by type and shape alone.

    `onnx_ir` has a pass for it, which makes tensors of sequences and optionals.

    Returns:
        Whether its rules for all ops agree.
    """
    inferred, agrees = _inferred(proto_for_inference(model))
    if inferred is not None:
        take_types(model, inferred)
    return agrees


def take_types(model: ir.Model, inferred: Sequence[onnx.GraphProto]) -> None:
    """Gives the values of `model` the types and shapes of `inferred`, where those say something.

    Args:
        model: changed in place; inputs of the main graph are left as they are.
        inferred: of the main graph and all within it, in the order of `all_graphs`.
    """
    shared: dict[tuple[int | None, ...], ir.Shape] = {}
    for graph, typed in zip(graphs_of(model), inferred, strict=True):
        values = {v.name: v for node in graph for v in node.outputs if v.name}
        if graph is not model.graph:
            values |= {v.name: v for v in graph.inputs if v.name}
        for known in (typed.value_info, typed.input, typed.output):
            _take(values, known, shared)


def take_types_of(values: Iterable[ir.Value], typed: onnx.GraphProto) -> None:
    """The same for some values of the main graph alone."""
    named = {value.name: value for value in values if value.name}
    for known in (typed.value_info, typed.output):
        _take(named, known, {})


def _take(
    values: dict[str, ir.Value],
    known: Iterable[onnx.ValueInfoProto],
    shared: dict[tuple[int | None, ...], ir.Shape],
) -> None:
    for info in known:
        value = values.get(info.name)
        if value is None:
            continue
        kind = type_from_proto(info.type)
        if kind is not None and kind.dtype is not ir.DataType.UNDEFINED:
            value.type = kind
        shape = shape_from_proto(info.type, shared)
        if shape is not None:
            # onnx computes negative sizes where a kernel is larger than what it slides over.
            for axis, dim in enumerate(shape.dims):
                if isinstance(dim, int) and dim < 0:
                    shape = shape.copy(frozen=False)
                    shape[axis] = None
            value.shape = shape
