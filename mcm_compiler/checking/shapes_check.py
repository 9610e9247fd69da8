"""Check whether the types and shapes that models of a folder declare are those that their ops make.

Costs and memory plans count with declared shapes, and neither the proof by structure nor a run
looks at those of values within a chip. So they are dropped, and found again from the inputs on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from mcm_compiler.contracts.chips import chips_in_dataflow_order
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph import constants, estimated_dims
from mcm_compiler.ir.rewriting.node_copying import copy_node
from mcm_compiler.ir.shapes import inference, shapes_by_run

MAX_NAMED = 5
"""Values that are listed one by one."""

_INFERRED_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})
"""Ops of other domains keep what is declared, because only a run shows it."""

Declared = tuple[ir.TypeProtocol | None, ir.Shape | None]


def check_shapes(chips: Sequence[ChipModel], wires: Sequence[Wire], source: ir.Model) -> None:
    """Holds declared types and shapes against those that follow from the inputs and the ops.

    They are found as at import: by onnx's inference, and by a run where that leaves values open or
    may be wrong. A size that depends on data has no witness but its declaration, and where all
    models together do not run in onnxruntime, nothing within them has.

    Args:
        chips: models of chips, or of the segments of a placement.
        wires: all tensors that travel between them and the host, states included.
        source: the model whose graph inputs the host has.

    Raises:
        CompileError: MCM-V052, one diagnostic for each value up to `MAX_NAMED`; MCM-I018 where
            onnx's inference crashes on the models.
    """
    joined = _Joined(source, wires)
    faults = [
        _told(place, fault)
        for chip in chips_in_dataflow_order(chips, wires)
        for place, fault in joined.add(chip)
    ]
    faults = faults or [_told(place, fault) for place, fault in joined.contradictions()]
    if faults:
        raise CompileError(faults[:MAX_NAMED])


def _told(place: str, fault: str) -> Diagnostic:
    return Diagnostic("MCM-V052", f"{place} {fault}", at=place)


class _Joined:
    """All models as one graph, in which every value has a name of its own.

    Constants that travel between chips take part in the inference with their values that way.
    """

    def __init__(self, source: ir.Model, wires: Sequence[Wire]) -> None:
        self._given = {v.name: v for v in source.graph.inputs}
        self._source_of = {(w.tensor, c): w.source for w in wires for c in w.destinations}
        self._leaving = [(w.source, w.tensor) for w in wires if HOST in w.destinations]
        self._inputs: dict[str, ir.Value] = {}
        self._stored: list[ir.Value] = []
        self._sent: dict[tuple[int, str], ir.Value] = {}
        self._nodes: list[ir.Node] = []
        self._place: dict[ir.Value, str] = {}
        self._opsets: dict[str, int] = {}
        self._functions: list[ir.Function] = []
        self._ir_version = source.ir_version

    def add(self, chip: ChipModel) -> Iterator[tuple[str, str]]:
        """Takes a model in.

        Yields:
            Place and fault where weights and inputs are declared otherwise than they are.
        """
        graph, where = chip.model.graph, f"chip {chip.chip}"
        self._functions += chip.model.functions.values() if not self._functions else ()
        for domain, version in graph.opset_imports.items():
            if self._opsets.setdefault(domain, version) != version:
                yield where, f"{quote(domain)} is imported in another version than on other chips"
        value_of: dict[ir.Value, ir.Value] = {}
        yield from self._store(graph, where, value_of)
        yield from self._receive(chip, where, value_of)
        for node in graph:
            copy = copy_node(node, value_of, f"{where}: {node.name}")
            for old, new in zip(node.outputs, copy.outputs, strict=True):
                value_of[old] = new
                if old.name:
                    new.name = f"{where}: {old.name}"
                    self._place[new] = f"value {quote(old.name)} of {where}"
            self._nodes.append(copy)
        for value in graph.outputs:
            if value in value_of:
                self._sent[chip.chip, value.name or ""] = value_of[value]

    def _store(
        self, graph: ir.Graph, where: str, value_of: dict[ir.Value, ir.Value]
    ) -> Iterator[tuple[str, str]]:
        """The weights of a chip, each as its content is."""
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is None:
                continue
            kind, shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
            if fault := _difference((value.type, value.shape), kind, shape):
                yield f"weight {quote(value.name or '')} of {where}", fault
            value_of[value] = ir.Value(
                name=f"{where}: {value.name}", type=kind, shape=shape, const_value=tensor
            )
            self._stored.append(value_of[value])

    def _receive(
        self, chip: ChipModel, where: str, value_of: dict[ir.Value, ir.Value]
    ) -> Iterator[tuple[str, str]]:
        """The inputs of a chip, as the host or another chip has them."""
        for value in chip.model.graph.inputs:
            if value in value_of:
                continue
            name = value.name or ""
            source = self._source_of.get((name, chip.chip), HOST)
            found = self._sent.get((source, name)) if source != HOST else self._input(value)
            if found is None:
                continue
            value_of[value] = found
            if source != HOST or found.type is None:
                continue
            if fault := _difference((value.type, value.shape), found.type, found.shape):
                yield f"input {quote(name)} of {where}", fault

    def _input(self, value: ir.Value) -> ir.Value:
        name = value.name or ""
        if name not in self._inputs:
            told = self._given.get(name, value)
            self._inputs[name] = ir.Value(
                name=name,
                type=told.type,
                shape=told.shape.copy() if told.shape is not None else None,
            )
        return self._inputs[name]

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Place and fault of each value that is declared otherwise than its op makes it."""
        leaving = [self._sent[end] for end in self._leaving if end in self._sent]
        graph = ir.Graph(
            list(self._inputs.values()),
            list(dict.fromkeys(leaving)),
            nodes=self._nodes,
            initializers=self._stored,
            opset_imports=self._opsets,
            name="joined",
        )
        model = ir.Model(graph, ir_version=self._ir_version, functions=self._functions)
        declared = {v: (v.type, v.shape) for n in _nodes(model) for v in n.outputs}
        for node in _nodes(model):
            for value in node.outputs:
                if node.domain in _INFERRED_DOMAINS:
                    value.shape = None
        inference.infer_shapes(model)
        faults: dict[ir.Value, str] = {}
        for value, said in declared.items():
            made, shape = value.type, value.shape
            if not value.name or made is None:
                continue
            if value not in self._place:
                # In bodies an import may know less of sizes than this.
                shape = _where_known(said[1], shape)
            if fault := _difference(said, made, shape):
                faults[value] = fault
        if faults and not _is_refused(model):
            for value, fault in faults.items():
                yield self._place.get(value, f"value {quote(value.name or '')}"), fault


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    return (node for graph in constants.graphs_of(model) for node in graph)


def _is_refused(model: ir.Model) -> bool:
    """Return whether onnxruntime runs a model on none of the inputs that an import tries.

    Inference may err then, since no run corrects it. It may misjudge ops before others that an
    import has folded to constants. For ops that contradict each other, each way to find shapes
    gives others.
    """
    outputs = [value for value in model.graph.outputs if value.name]
    return bool(outputs) and shapes_by_run.FileRuns(model).observe(outputs).refused


def _difference(said: Declared, made: ir.TypeProtocol, shape: ir.Shape | None) -> str:
    """How a declaration differs from what is made; empty where it does not."""
    kind, dims = said
    if kind is not None and not isinstance(made, type(kind)):
        return f"is declared as {kind}, and is {made}"
    if not isinstance(made, ir.TensorType):
        return ""
    if kind is None or kind.dtype != made.dtype:
        return f"is declared as {kind}, and is {made}"
    if shape is None or (dims is None and not any(isinstance(d, int) for d in shape)):
        return ""
    alike = dims is not None and len(dims) == len(shape) and all(map(_fits, dims, shape))
    return "" if alike else f"is declared as {dims}, and is {shape}"


def _where_known(said: ir.Shape | None, made: ir.Shape | None) -> ir.Shape | None:
    """Shape as made, open where a declaration of the same rank is open."""
    if said is None or made is None or len(said) != len(made):
        return None if said is None else made
    return ir.Shape([b if isinstance(a, int) else None for a, b in zip(said, made, strict=True)])


def _fits(said: int | ir.SymbolicDim, made: int | ir.SymbolicDim) -> bool:
    if not isinstance(made, int):
        return True  # it depends on data
    return said == made if isinstance(said, int) else estimated_dims.dim_size(said) >= made
