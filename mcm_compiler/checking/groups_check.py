"""Kernels that the passes of a folder make again: whether they fuse its ops, and divide as it says.

A kernel of many ops launches once and keeps what is between them off memory, so that a group that
nobody would fuse makes the period, and with it the bound, too short. The kernels of the bound over
all divisions are derived again, and its proof is followed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, replace
from itertools import takewhile
from math import isclose
from typing import Any

import onnx_ir as ir

from mcm_compiler.certificate.bound_check import MARGIN, not_re_proved
from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.certificate.joined import differs
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.sharding.divisions import DividedKernel, DivisionBound, ProvesDivisions
from mcm_compiler.contracts.sharding.sharding import SHARDING_PLAN
from mcm_compiler.contracts.target import ChipModel, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.values.followed_passes import pass_names
from mcm_compiler.graph.constants import constant_values, consumed_values, values_of
from mcm_compiler.graph.estimated_dims import dim_size, is_estimated
from mcm_compiler.graph.rounds import class_name, class_of
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.ir.rewriting.node_copying import copy_node
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import Pass, PassContext, parse_pipeline
from mcm_compiler.processes.staging import staging
from mcm_compiler.registry import PASSES, PROOF_CHECKERS
from mcm_compiler.text.units import seconds_text

Group = frozenset[str]

_RANGES = frozenset({"Concat", "Slice"})


def check_groups(
    model: ir.Model, groups: Mapping[str, Sequence[str]], pipeline: str, target: Target
) -> None:
    """Has the passes of the folder fuse the ops of the graph again.

    Passes that are not installed cannot be asked, and where one of them may have made the groups,
    nothing is refused; see `fusion_unknown`.

    Args:
        model: the graph before placement.
        groups: names of ops by name of the group that the folder has them in.
        pipeline: the passes that made the folder.
        target: the package.

    Raises:
        CompileError: MCM-V070 for ops that no pass fuses; what the passes raise.
    """
    nodes, constants = {node.name: node for node in model.graph}, constant_values(model.graph)
    wanted = {
        one: name
        for name, ops in groups.items()
        if len(one := _of_one_class(ops, nodes, constants)) > 1
    }
    passes = known_passes(pipeline)
    if not wanted or passes is None:
        return
    makers = [step for step in passes if FUSION_PLAN in step.provides]
    with staging(None) as folder:
        # What the host may not run at all was refused when the folder was made.
        context = PassContext(target, CompileOptions(fallback="host"), folder, lambda _: None)
        made = set(_fused(model, makers, context))
        if missing := [group for group in wanted if group not in made]:
            # Of which other ops they could have been fused with, the order of the graph decides.
            alone = _Extracts(model)
            missing = [
                group
                for group in missing
                if not any(
                    len(kernel) <= 1 or kernel in _fused(alone.of(kernel, whole), makers, context)
                    for kernel, whole in alone.kernels(group)
                )
            ]
    for group in missing:
        first = min(group)
        raise differs(
            f"it runs {quote(first)} and {len(group) - 1} more as one kernel, and no pass of the "
            f"folder fuses them",
            f"group {quote(wanted[group])}",
        )


def _of_one_class(
    ops: Sequence[str], nodes: Mapping[str | None, ir.Node], constants: Set[ir.Value]
) -> Group:
    """The ops of one class, of a kernel in which all of a round do the same with one weight."""
    bases: dict[int, set[str]] = {}
    read: dict[int, set[ir.Value]] = {}
    for name in ops:
        base, index = class_of(name) or (name, 0)
        bases.setdefault(index, set()).add(base)
        used = (value for value in consumed_values(nodes[name]) if value in constants)
        read.setdefault(index, set()).update(used)
    first = min(bases)
    alike = all(bases[k] == bases[first] and read[k] == read[first] != set() for k in bases)
    if len(bases) == 1 or not alike:
        return frozenset(ops)
    return frozenset(class_name(base, first) for base in bases[first])


def fusion_unknown(pipeline: str) -> str:
    """Why it is unknown which ops the passes of a pipeline fuse; empty where that is known."""
    known = {registration.name for registration in PASSES.registrations()}
    missing = pass_names(pipeline) - known
    if not missing:
        return ""
    name = quote(min(missing))
    return f"pass {name}, which may have chosen what runs as one kernel, is missing"


def known_passes(pipeline: str) -> tuple[Pass, ...] | None:
    """The passes of a pipeline; None where one of them is not installed."""
    if fusion_unknown(pipeline):
        return None
    return parse_pipeline(pipeline) if pass_names(pipeline) else ()


def _fused(model: ir.Model, makers: Iterable[Pass], context: PassContext) -> list[Group]:
    """The groups of the plan that the passes make."""
    for step in makers:
        step.run(model, context)
    plan = FUSION_PLAN.find(model)
    FUSION_PLAN.drop(model)
    return [frozenset(group.nodes) for group in plan.groups] if plan is not None else []


class _Extracts:
    """Parts of a graph as graphs of their own."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._constants = constant_values(model.graph)
        self._position = {node: i for i, node in enumerate(model.graph)}
        self._nodes = {node.name or "": node for node in model.graph}
        self._types: dict[str, set[str]] = {}
        for node in model.graph:
            if origin := node.metadata_props.get(ORIGIN_PROPERTY):
                self._types.setdefault(origin, set()).add(node.op_type)
        # Each op that reads a whole puts the same pieces together for itself.
        self._first: dict[ir.Value, ir.Value] = {}
        seen: dict[Hashable, ir.Value] = {}
        for node in filter(self._moves_ranges, model.graph):
            read = tuple(self._first.get(v, v) if v is not None else None for v in node.inputs)
            made = seen.setdefault((node.op_type, _value(node, "axis"), read), node.outputs[0])
            self._first[node.outputs[0]] = made

    def kernels(self, names: Group) -> Iterator[tuple[Group, Mapping[ir.Value, ir.Value]]]:
        """Kernels that passes may have fused before ops were divided, for a group.

        A tile reads ranges of what others make, and gives ranges of what it makes. Of a kernel of
        which only the first op is divided, the others remain: a piece in front makes it whole.

        Yields:
            Names of ops, and the results of pieces for what is put together of all pieces.
        """
        yield names, {}
        own = {name: self._nodes[name] for name in names}
        tile = frozenset(name for name, node in own.items() if not self._moves_ranges(node))
        if tile < names:
            yield tile, {}
        # A `Concat` of the model is put together like what tiles read.
        if all(own[name].op_type in _RANGES for name in names):
            yield frozenset(), {}
        for node in own.values():
            for value in node.inputs:
                join = value.producer() if value is not None else None
                if value is None or join is None or not self._moves_ranges(join):
                    continue
                piece: ir.Node | None = join
                while piece is not None and self._moves_ranges(piece):
                    # Parts of pieces are put together first.
                    piece = piece.inputs[0].producer() if piece.inputs[0] is not None else None
                if piece is not None and piece.name not in names:
                    alike = (v for v, first in self._first.items() if first is self._first[value])
                    yield tile | {piece.name or ""}, dict.fromkeys(alike, piece.outputs[0])

    def _moves_ranges(self, node: ir.Node) -> bool:
        """True for a `Slice` or `Concat` from an op of another type, or that feeds its own."""
        origin = node.metadata_props.get(ORIGIN_PROPERTY, "")
        if node.op_type not in _RANGES or node.name == origin or not origin:
            return False
        readers = {use.node.metadata_props.get(ORIGIN_PROPERTY) for use in node.outputs[0].uses()}
        return bool(self._types.get(origin, set()) - _RANGES) or readers == {origin}

    def of(self, names: Group, whole: Mapping[ir.Value, ir.Value]) -> ir.Model:
        """The ops of these names, with the constants that they read.

        Args:
            names: of the ops.
            whole: a value for each that takes its place.
        """
        members = {self._nodes[name] for name in names}
        nodes = sorted(members | set(self._makers(members)), key=self._position.__getitem__)
        value_of: dict[ir.Value, ir.Value] = {}
        inputs: list[ir.Value] = []
        stored: list[ir.Value] = []
        outputs: list[ir.Value] = []
        copies: list[ir.Node] = []
        made = {value for node in nodes for value in node.outputs}
        parts = set(whole.values())
        for node in nodes:
            for value in consumed_values(node):
                if value in value_of or value in made or value in whole:
                    continue
                first = self._first.get(value, value)
                if first in value_of:
                    value_of[value] = value_of[first]
                    continue
                value_of[first] = value_of[value] = ir.Value(
                    name=value.name,
                    type=value.type,
                    shape=value.shape.copy() if value.shape is not None else None,
                    const_value=value.const_value,
                )
                (stored if value.is_initializer() else inputs).append(value_of[value])
            copy = copy_node(node, value_of, node.name or "")
            value_of.update(zip(node.outputs, copy.outputs, strict=True))
            for value, part in whole.items():
                if part in node.outputs:
                    value_of[value] = value_of[part]
                    value_of[part].shape = value.shape.copy() if value.shape is not None else None
            copies.append(copy)
            leaves = node in members and any(
                value.is_graph_output() or any(use.node not in members for use in value.uses())
                for value in node.outputs
                if value not in parts
            )
            outputs += [value for value in copy.outputs if value.name] if leaves else ()
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=copies,
            initializers=stored,
            opset_imports=dict(self._model.graph.opset_imports),
            name="part",
        )
        functions = list(self._model.functions.values())
        return ir.Model(graph, ir_version=self._model.ir_version, functions=functions)

    def _makers(self, nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
        """The ops that make the constants that `nodes` read."""
        pending, seen = list(nodes), set[ir.Node]()
        while pending:
            for value in consumed_values(pending.pop()):
                maker = value.producer()
                if maker is not None and value in self._constants and maker not in seen:
                    seen.add(maker)
                    pending.append(maker)
                    yield maker


_COMPARED = frozenset({"FLOAT", "INT", "STRING", "FLOATS", "INTS", "STRINGS"})


def changed_op(chips: Sequence[ChipModel], source: ir.Model) -> str | None:
    """The first op of another type, or with another attribute, than the op that it comes from.

    Passes may have changed it with reason; this shows where to look when results differ.

    Args:
        chips: the chips' models.
        source: the source model.
    """
    origins = {node.name: node for node in source.graph}
    for chip in chips:
        for node in chip.model.graph:
            origin = origins.get(node.metadata_props.get(ORIGIN_PROPERTY, ""))
            if origin is not None and (what := _change(node, origin)) is not None:
                return f"op {quote(node.name or '')} of chip {chip.chip} {what}"
    return None


def _change(node: ir.Node, origin: ir.Node) -> str | None:
    if (node.domain, node.op_type) != (origin.domain, origin.op_type):
        return f"is a {quote(node.op_type)}, it was a {quote(origin.op_type)}"
    for name in sorted({*node.attributes, *origin.attributes}):
        now, was = _value(node, name), _value(origin, name)
        if now != was:
            return f"has the attribute {quote(name)} {_shown(now)}, it had {_shown(was)}"
    return None


def _value(node: ir.Node, name: str) -> Any:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type.name not in _COMPARED:
        return None
    return attribute.value


def _shown(value: Any) -> str:
    return "none" if value is None else quote(str(value))


CHECKER = "divisions"
"""Name of the proof checker."""


def check_divisions(
    folder: OpenedFolder, certificate: Certificate
) -> tuple[str, Diagnostic | None]:
    """Proves the bound over all divisions again.

    Returns:
        A summary, empty without a bound, and MCM-V072 where it could not be re-proved.

    Raises:
        CompileError: MCM-V070 for kernels other than those of the model, MCM-V071 for a bound that
            its prices do not show.
    """
    bound = certificate.divisions
    if bound is None:
        return "", None
    manifest = folder.manifest
    checker = PROOF_CHECKERS.get(CHECKER) if CHECKER in PROOF_CHECKERS else None
    passes = known_passes(manifest.pipeline)
    if not isinstance(checker, ProvesDivisions) or passes is None:
        missing = "its checker" if passes is not None else "a pass of the folder"
        note = not_re_proved(f"{missing} is not installed", "the bound over all divisions")
        return note.message, note
    model = _imported(folder.source, manifest.model)
    options = CompileOptions(fallback="host")
    with staging(None) as stage, PROOF_CHECKERS.at_work(CHECKER):
        context = PassContext(folder.target, options, stage, lambda _: None)
        for step in takewhile(lambda one: SHARDING_PLAN not in one.provides, passes):
            step.run(model, context)
        kernels = checker.kernels(model, folder.target, FUSION_PLAN.get(model))
        _compare(bound, kernels or ())
        limits = folder.target.limits.first(certificate.scope.devices, 1)
        shown = checker.rules_out_period(
            replace(bound, seconds=bound.seconds * (1.0 - MARGIN)), limits
        )
    if not shown:
        raise CompileError.of(
            "MCM-V071",
            "the bound does not hold as it is claimed: its prices do not show that no division "
            f"takes less than {bound.seconds!r} s",
            at="divisions in certificate.json",
        )
    return f"{seconds_text(bound.seconds)} over all divisions re-proved", None


def _imported(source: ir.Model, name: str) -> ir.Model:
    """The model as it was imported; sizes that depend on data are those that the source states."""
    stated = {
        value.name or "": value.shape
        for value in values_of(source)
        if value.shape is None or any(map(is_estimated, value.shape))
    }
    given = ((value.name or "", value.shape) for value in source.graph.inputs)
    sizes = {key: tuple(map(dim_size, shape)) for key, shape in given if shape and key in stated}
    model, _ = import_model(source.clone(), name, shapes=sizes)
    for value in values_of(model):
        value.shape = stated.get(value.name or "", value.shape)
    return model


def _compare(bound: DivisionBound, kernels: tuple[DividedKernel, ...]) -> None:
    if len(bound.kernels) != len(kernels):
        raise differs(
            f"its bound over all divisions counts {len(bound.kernels)} kernels, the source has "
            f"{len(kernels)}",
            "division.kernel",
        )
    for said, derived in zip(bound.kernels, kernels, strict=True):
        for field in fields(DividedKernel):
            theirs, ours = getattr(said, field.name), getattr(derived, field.name)
            same = theirs == ours if isinstance(ours, str) else isclose(theirs, ours, rel_tol=1e-9)
            if not same:
                raise differs(
                    f"{field.name} of kernel {quote(derived.name)} is {theirs}, the source gives "
                    f"{ours}",
                    f"division.{'kernel' if field.name == 'name' else field.name}",
                )
