"""Whether ops that a folder runs as one kernel are ops that its passes fuse.

A kernel of many ops launches once and keeps what is between them off memory, so that a group that
nobody would fuse makes the period, and with it the bound, too short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from mcm_compiler.certificate.joined import differs
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import quote
from mcm_compiler.equivalence.values.followed_passes import pass_names
from mcm_compiler.graph.constants import constant_values, consumed_values
from mcm_compiler.ir.rewriting.node_copying import copy_node
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import Pass, PassContext
from mcm_compiler.pipeline.pipeline_text import parse_pipeline
from mcm_compiler.processes.staging import staging
from mcm_compiler.registry import PASSES

Group = frozenset[str]


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
    wanted = {frozenset(ops): name for name, ops in groups.items() if len(ops) > 1}
    makers = _makers(pipeline)
    if not wanted or makers is None:
        return
    with staging(None) as folder:
        # What the host may not run at all was refused when the folder was made.
        context = PassContext(target, CompileOptions(fallback="host"), folder, lambda _: None)
        made = set(_fused(model, makers, context))
        if missing := [group for group in wanted if group not in made]:
            # Of which other ops they could have been fused with, the order of the graph decides.
            alone = _Extracts(model)
            missing = [g for g in missing if g not in _fused(alone.of(g), makers, context)]
    for group in missing:
        first = min(group)
        raise differs(
            f"it runs {quote(first)} and {len(group) - 1} more as one kernel, and no pass of the "
            f"folder fuses them",
            f"group {quote(wanted[group])}",
        )


def fusion_unknown(pipeline: str) -> str:
    """Why nobody can tell which ops the passes of a pipeline fuse; empty where that is known."""
    known = {registration.name for registration in PASSES.registrations()}
    missing = pass_names(pipeline) - known
    if not missing:
        return ""
    name = quote(min(missing))
    return f"pass {name}, which may have chosen what runs as one kernel, is missing"


def _makers(pipeline: str) -> list[Pass] | None:
    """The passes of a pipeline that fuse; None where one that is not installed might."""
    if fusion_unknown(pipeline):
        return None
    passes = parse_pipeline(pipeline) if pass_names(pipeline) else ()
    return [step for step in passes if FUSION_PLAN in step.provides]


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

    def of(self, names: Group) -> ir.Model:
        """The ops of these names, with the constants that they read."""
        members = {self._nodes[name] for name in names}
        nodes = sorted(members | set(self._makers(members)), key=self._position.__getitem__)
        value_of: dict[ir.Value, ir.Value] = {}
        inputs: list[ir.Value] = []
        stored: list[ir.Value] = []
        outputs: list[ir.Value] = []
        copies: list[ir.Node] = []
        made = {value for node in nodes for value in node.outputs}
        for node in nodes:
            for value in consumed_values(node):
                if value in value_of or value in made:
                    continue
                value_of[value] = ir.Value(
                    name=value.name,
                    type=value.type,
                    shape=value.shape.copy() if value.shape is not None else None,
                    const_value=value.const_value,
                )
                (stored if value.is_initializer() else inputs).append(value_of[value])
            copy = copy_node(node, value_of, node.name or "")
            value_of.update(zip(node.outputs, copy.outputs, strict=True))
            copies.append(copy)
            leaves = node in members and any(
                value.is_graph_output() or any(use.node not in members for use in value.uses())
                for value in node.outputs
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
