"""The graph that was placed, put together again from the devices' models.

What was added so that a placement can run is taken out: ops that only pass a tensor on are dropped,
copies become their originals. What remains is the graph before placement, apart from the order of
its ops, for which the certificate's own is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.contracts.chips import GROUP_PROPERTY, chips_in_dataflow_order, pieces_of
from mcm_compiler.contracts.fusion import FusionGroup, FusionPlan
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.graph.constants import constant_values, consumed_values
from mcm_compiler.ir.rewriting.node_copying import copy_node


@dataclass(frozen=True, eq=False)
class JoinedModel:
    """The graph before placement, and where its ops are.

    Attributes:
        model: the graph.
        plan: which of its ops run as one kernel.
        devices: devices of each op by name, those of its copies behind its own.
    """

    model: ir.Model
    plan: FusionPlan
    devices: Mapping[str, tuple[int, ...]]


def differs(what: str, place: str) -> CompileError:
    """MCM-V070: the certificate is not about the models of the folder."""
    return CompileError.of(
        "MCM-V070", f"the certificate is not about the chips' models: {what}", at=place
    )


def join(
    chips: Sequence[ChipModel], wires: Sequence[Wire], source: ir.Model, certificate: Certificate
) -> JoinedModel:
    """Joins the devices' models along the wires.

    Args:
        chips: of the folder.
        wires: all tensors that travel.
        source: the annotated source model, for inputs that no device reads.
        certificate: says which ops are copies or pass tensors on, and in what order units are.

    Raises:
        CompileError: MCM-V070 for an op that is not what the certificate says of it.
    """
    work = _Joiner(wires, certificate)
    places = pieces_of(wires, inputs=True)
    pieces: dict[str, list[ir.Value]] = {}
    for name in sorted(places, key=lambda name: places[name].start):
        pieces.setdefault(places[name].graph_output, []).append(ir.Value(name=name))
    for value in source.graph.inputs:
        if value.name not in source.graph.initializers:
            for own in pieces.get(value.name or "", (value,)):
                work.add_input(own)
    for chip in chips_in_dataflow_order(chips, wires):
        work.add(chip)
    work.refuse_leftovers()
    work.refuse_other_kernels()
    return work.joined(chips[0].model)


class _Joiner:
    def __init__(self, wires: Sequence[Wire], certificate: Certificate) -> None:
        self._members = certificate.problem.members
        self._copy_of = {(node, device): of for of, node, device in certificate.copies}
        self._forward_of = {(node, device): of for of, node, device in certificate.forwards}
        self._source_of = {(w.tensor, c): w.source for w in wires for c in w.destinations}
        self._outputs = [(w.tensor, w.source) for w in wires if HOST in w.destinations]
        self._inputs: dict[str, ir.Value] = {}
        self._stored: dict[str, ir.Value] = {}
        self._sent: dict[tuple[int, str], ir.Value] = {}
        self._nodes: dict[str, ir.Node] = {}
        self._constant: set[str] = set()
        self._devices: dict[str, tuple[int, ...]] = {}
        self._seen: set[tuple[str, int]] = set()
        self._ahead: set[str] = set()  # names of ops of which copies alone were seen so far
        self._runs: list[tuple[ir.Node, ir.Node, int]] = []

    def add_input(self, value: ir.Value) -> ir.Value:
        """A graph input; a device's own knowledge of its shape wins over the source's."""
        found = self._inputs.get(value.name or "")
        if found is None:
            found = self._inputs[value.name or ""] = ir.Value(name=value.name)
        found.type = value.type
        found.shape = value.shape.copy() if value.shape is not None else None
        return found

    def add(self, chip: ChipModel) -> None:
        graph, device = chip.model.graph, chip.chip
        value_of: dict[ir.Value, ir.Value] = {}
        for value in graph.inputs:
            name = value.name or ""
            source = self._source_of.get((name, device), HOST)
            if source == HOST:
                value_of[value] = self.add_input(value)
            elif (sent := self._sent.get((source, name))) is not None:
                value_of[value] = sent
            else:
                raise differs(f"nothing sends {quote(name)}", f"chip {device}")
        for value in graph.initializers.values():
            value_of.setdefault(value, self._store(value))
        forwards = {n for n in graph if (n.name or "", device) in self._forward_of}
        constants = constant_values(graph, without=forwards)
        for node in graph:
            self._add_node(node, device, value_of, constants)
        for value in graph.outputs:
            self._sent[device, value.name or ""] = value_of[value]

    def _store(self, value: ir.Value) -> ir.Value:
        name = value.name or ""
        if name not in self._stored:
            self._stored[name] = ir.Value(
                name=name,
                type=value.type,
                shape=value.shape.copy() if value.shape is not None else None,
                const_value=value.const_value,
            )
        return self._stored[name]

    def _add_node(
        self,
        node: ir.Node,
        device: int,
        value_of: dict[ir.Value, ir.Value],
        constants: set[ir.Value],
    ) -> None:
        key = (node.name or "", device)
        if key in self._forward_of:
            self._forward(node, key, value_of)
            return
        if key in self._copy_of:
            original = self._original(node, key, value_of)
        elif key[0] in self._ahead:
            original = self._nodes[key[0]]
            if not _same_op(original, node, value_of):
                raise differs(f"a copy of {quote(key[0])} is another op", f"chip {device}")
            self._ahead.remove(key[0])
            original.metadata_props.clear()
            original.metadata_props.update(node.metadata_props)
            for made, own in zip(original.outputs, node.outputs, strict=False):
                made.name = own.name
        elif all(v in constants for v in node.outputs) and key[0] in self._constant:
            original = self._nodes[key[0]]  # constant ops are on every device that needs them
        elif key[0] in self._nodes:
            raise differs(f"{quote(key[0])} is on several chips and no copy", f"chip {device}")
        else:
            original = copy_node(node, value_of, key[0])
            self._nodes[key[0]] = original
            if all(v in constants for v in node.outputs):
                self._constant.add(key[0])
        self._runs.append((node, original, device))
        # A constant op is placed where it makes an output; on others that read it it is a weight.
        if any(v not in constants or v.is_graph_output() for v in node.outputs):
            found = self._devices.get(original.name or "", ())
            behind = key in self._copy_of or key[0] in self._constant
            self._devices[original.name or ""] = (*found, device) if behind else (device, *found)
        if len(original.outputs) != len(node.outputs):
            raise differs(f"{quote(key[0])} has other outputs than its copy", f"chip {device}")
        value_of.update(zip(node.outputs, original.outputs, strict=True))

    def refuse_other_kernels(self) -> None:
        """Refuses a kernel of copies that is none of the originals, or that has other ops too."""
        # Groups on devices: whether their ops are copies, and the group that the originals have.
        kernels: dict[tuple[int, str], tuple[bool, str | None]] = {}
        for node, original, device in self._runs:
            group = node.metadata_props.get(GROUP_PROPERTY)
            known = original.metadata_props.get(GROUP_PROPERTY)
            is_copy = (node.name or "", device) in self._copy_of
            same = (group is None) == (known is None) and (is_copy or group == known)
            if group is not None:
                found = (is_copy, known)
                same = same and kernels.setdefault((device, group), found) == found
            if not same:
                name = quote(node.name or "")
                raise differs(f"{name} runs in another kernel than its original", f"chip {device}")

    def _forward(
        self, node: ir.Node, key: tuple[str, int], value_of: dict[ir.Value, ir.Value]
    ) -> None:
        passed = node.inputs[0] if len(node.inputs) == 1 else None
        if node.op_type != "Identity" or node.domain not in ("", "ai.onnx") or passed is None:
            raise differs(f"{quote(key[0])} does not only pass a tensor on", f"chip {key[1]}")
        if GROUP_PROPERTY in node.metadata_props:
            raise differs(f"{quote(key[0])} is part of a kernel", f"chip {key[1]}")
        root, (made,) = value_of[passed], node.outputs
        tensor = self._forward_of[key]
        if tensor == made.name:
            root.name = tensor  # a graph output that leaves elsewhere gives its name to the copy
        self._seen.add(key)
        value_of[made] = root

    def _original(
        self, node: ir.Node, key: tuple[str, int], value_of: Mapping[ir.Value, ir.Value]
    ) -> ir.Node:
        """Node that a copy stands for; without an earlier one, the copy itself for now."""
        name = self._copy_of[key]
        original = self._nodes.get(name)
        self._seen.add(key)
        if original is None:
            original = self._nodes[name] = copy_node(node, value_of, name)
            self._ahead.add(name)
        elif not _same_op(original, node, value_of):
            raise differs(f"{quote(key[0])} is no copy of {quote(name)}", f"chip {key[1]}")
        return original

    def refuse_leftovers(self) -> None:
        """Refuses copies and forwarding ops that no model has, and names that do not fit."""
        for (name, device), of in self._copy_of.items():
            if of in self._ahead:
                raise differs(
                    f"no chip has {quote(of)}, of which {quote(name)} is a copy", f"chip {device}"
                )
        missing = ({*self._copy_of, *self._forward_of}) - self._seen
        for name, device in sorted(missing):
            raise differs(f"no model has the op {quote(name)}", f"chip {device}")
        for (name, device), tensor in self._forward_of.items():
            if not name.startswith(tensor):
                raise differs(f"{quote(name)} does not pass on {quote(tensor)}", f"chip {device}")

    def joined(self, like: ir.Model) -> JoinedModel:
        """The graph, with its units in the order of the certificate."""
        in_units = [name for names in self._members for name in names]
        order = list(self._ordered(in_units))
        graph = ir.Graph(
            list(self._inputs.values()),
            [self._output(name, source) for name, source in self._outputs],
            nodes=order,
            initializers=list(self._stored.values()),
            opset_imports=dict(like.graph.opset_imports),
            name=like.graph.name or "graph",
        )
        groups: dict[str, list[str]] = {}
        for node in order:
            if (group := node.metadata_props.get(GROUP_PROPERTY)) is not None:
                groups.setdefault(group, []).append(node.name or "")
        plan = FusionPlan(tuple(FusionGroup(n, "", tuple(ops)) for n, ops in groups.items()))
        model = ir.Model(graph, ir_version=like.ir_version, functions=list(like.functions.values()))
        return JoinedModel(model, plan, self._devices)

    def _output(self, name: str, source: int) -> ir.Value:
        value = self._inputs.get(name) if source == HOST else self._sent.get((source, name))
        if value is None:
            raise differs(f"nothing makes the output {quote(name)}", f"chip {source}")
        return value

    def _ordered(self, in_units: Sequence[str]) -> Iterable[ir.Node]:
        """Units as the certificate lists them, constant ops before their readers, the rest last."""
        placed = set(in_units)
        if len(placed) < len(in_units):
            raise differs("an op is in two units", "unit.members")
        for name in in_units:
            if name not in self._nodes:
                raise differs(f"no chip runs the op {quote(name)}", "unit.members")
        found: dict[ir.Node, None] = {}
        rest = [name for name in self._nodes if name not in placed]
        for name in (*in_units, *rest):
            pending = [self._nodes[name]]
            while pending:
                makers = [v.producer() for v in consumed_values(pending[-1])]
                # What is placed keeps its place.
                before = [
                    maker
                    for maker in makers
                    if maker is not None and maker not in found and maker.name not in placed
                ]
                if before:
                    pending += before
                else:
                    found.setdefault(pending.pop())
        return found


def _same_op(original: ir.Node, copy: ir.Node, value_of: Mapping[ir.Value, ir.Value]) -> bool:
    if (original.op_type, original.domain) != (copy.op_type, copy.domain):
        return False
    if [None if v is None else value_of[v] for v in copy.inputs] != list(original.inputs):
        return False
    captured = {value_of[v] for v in consumed_values(copy)}
    if captured != set(consumed_values(original)):
        return False
    left, right = original.attributes, copy.attributes
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return left.keys() == right.keys() and all(
        left[k].type == right[k].type and (left[k].type in graphs or _same(left[k], right[k]))
        for k in left
    )


def _same(left: ir.Attr, right: ir.Attr) -> bool:
    if left.is_ref() or right.is_ref():
        return left.is_ref() and right.is_ref() and left.ref_attr_name == right.ref_attr_name
    written = (ir.to_proto(ir.Attr("a", a.type, a.value)) for a in (left, right))
    first, second = (proto.SerializeToString(deterministic=True) for proto in written)
    return first == second
