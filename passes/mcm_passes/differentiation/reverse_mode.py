"""Reverse mode: from the gradient of a loss back to those of its sources, op by op.

Griewank and Walther 2008, *Evaluating Derivatives*, chapter 3. Only ops between a source and the
loss get gradient ops; where gradients of one value meet there is one n-ary `Sum`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule, NotDifferentiable
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault
from mcm_compiler.registry import GRADIENT_RULES
from mcm_compiler.text.units import count_text
from mcm_passes.differentiation.emission import Emitter
from mcm_passes.differentiation.variables import FLOATS


@dataclass(frozen=True)
class RegisteredGradient:
    """One rule.

    Attributes:
        operator: as in `operator_of`.
        rule: see there.
        origin: the distribution or file that it comes from.
    """

    operator: str
    rule: GradientRule
    origin: str


def operator_of(node: ir.Node) -> str:
    """The name that a node's rule is registered under: `MatMul`, or `com.acme::Blend`."""
    if node.domain in ("", "ai.onnx"):
        return node.op_type
    return f"{node.domain}::{node.op_type}"


@lru_cache(maxsize=1)
def installed_gradients() -> Mapping[str, RegisteredGradient]:
    """The rules of all entry points `gradient-rule.NAME`, and those of this process.

    Raises:
        CompileError: MCM-X001 if two distributions have a rule for one operator, MCM-D037 for an
            entry point that holds no rules.
    """
    return {
        operator: RegisteredGradient(operator, rule, origin)
        for operator, (rule, origin) in GRADIENT_RULES.held(callable, _no_rule).items()
    }


def _no_rule(name: str, held: object, origin: str) -> Diagnostic:
    return Diagnostic(
        "MCM-D037",
        f"entry point {quote(name)} holds {type(held).__name__} where a gradient rule is due",
        at=origin,
    )


Rules = Mapping[str, RegisteredGradient]


def reached_from(nodes: Iterable[ir.Node], sources: Collection[ir.Value]) -> set[ir.Value]:
    """Values that depend on a source by floating-point numbers alone, the sources among them.

    Args:
        nodes: in topological order.
        sources: of floating point.
    """
    reached = set(sources)
    for node in nodes:
        if any(value in reached for value in consumed_values(node)):
            reached.update(v for v in node.outputs if v.dtype is None or v.dtype in FLOATS)
    return reached


def needed_for(nodes: Sequence[ir.Node], values: Iterable[ir.Value]) -> list[ir.Node]:
    """Nodes that some of `values` depend on, in order.

    Args:
        nodes: in topological order.
        values: what is wanted.
    """
    wanted = set(values)
    found: list[ir.Node] = []
    for node in reversed(nodes):
        if any(value in wanted for value in node.outputs):
            found.append(node)
            wanted.update(consumed_values(node))
    found.reverse()
    return found


def gradients_of(
    nodes: Sequence[ir.Node],
    seeds: Mapping[ir.Value, ir.Value],
    sources: Sequence[ir.Value],
    ops: Emitter,
    rules: Rules,
) -> list[ir.Value | None]:
    """Emits the gradients of `sources`.

    Args:
        nodes: in topological order; all that is between sources and the values of `seeds`.
        seeds: the gradients to begin with, by value.
        sources: of floating point.
        ops: takes what is emitted.
        rules: by operator.

    Returns:
        For each source its gradient, or None where nothing depends on it.

    Raises:
        CompileError: with a diagnostic for each type of op. MCM-D030 without a rule, MCM-D031 for
            one that refuses, MCM-D034 for shapes that are not static, MCM-D035 for a rule that
            fails or gives what does not fit.
    """
    reached = reached_from(nodes, sources)
    active = [
        node for node in needed_for(nodes, seeds) if any(value in reached for value in node.outputs)
    ]
    faults = _Faults()
    for node in active:
        if operator_of(node) not in rules:
            faults.add("MCM-D030", node, "")
    faults.throw()
    sweep = _Sweep(ops, rules, reached, faults)
    for value, gradient in seeds.items():
        sweep.add(value, gradient)
    for node in reversed(active):
        sweep.visit(node)
    faults.throw()
    return [sweep.total(source, f"grad/{source.name}") for source in sources]


class _Sweep:
    """One way back through the ops."""

    def __init__(self, ops: Emitter, rules: Rules, reached: set[ir.Value], faults: _Faults) -> None:
        self._ops = ops
        self._rules = rules
        self._reached = reached
        self._faults = faults
        self._terms: dict[ir.Value, list[ir.Value]] = {}

    def add(self, value: ir.Value, gradient: ir.Value) -> None:
        self._terms.setdefault(value, []).append(gradient)

    def total(self, value: ir.Value, scope: str) -> ir.Value | None:
        """The gradient of a value, whose readers have all been visited."""
        terms = self._terms.get(value)
        if not terms:
            return None
        if len(terms) > 1:
            self._ops.enter(scope)
            terms[:] = [self._ops.op("Sum", *terms)]
        return terms[0]

    def visit(self, node: ir.Node) -> None:
        scope = f"grad/{node.name}"
        try:
            gradients = tuple(self.total(value, scope) for value in node.outputs)
            if all(gradient is None for gradient in gradients):
                return
            made = self._asked(node, gradients, scope)
        except NotDifferentiable as refused:
            self._faults.add("MCM-D031", node, str(refused))
            return
        except _Unfit as unfit:
            self._faults.add("MCM-D035", node, str(unfit))
            return
        except _Open as unknown:
            self._faults.add("MCM-D034", node, str(unknown))
            return
        for value, gradient in zip(node.inputs, made, strict=True):
            if value is not None and gradient is not None and value in self._reached:
                self.add(value, gradient)

    def _asked(
        self, node: ir.Node, gradients: tuple[ir.Value | None, ...], scope: str
    ) -> Sequence[ir.Value | None]:
        """Results of a node's rule, checked."""
        own = {value for value in node.inputs if value is not None}
        for value in consumed_values(node):
            if value in self._reached and value not in own:
                reason = f"its body reads {quote(value.name or '')} from outside"
                raise NotDifferentiable(reason)
        self._check_shapes(node)
        wanted = tuple(value is not None and value in self._reached for value in node.inputs)
        self._ops.enter(scope)
        request = GradientRequest(node, gradients, wanted, self._ops, self._ops.version)
        try:
            made = self._rules[operator_of(node)].rule(request)
        except NotDifferentiable:
            raise
        except BaseException as error:  # whatever a plug-in's rule does
            if is_no_fault(error):
                raise
            raise _Unfit(f"it fails with {fault_text(error)}") from error
        return self._fitting(node, made)

    def _check_shapes(self, node: ir.Node) -> None:
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.name and (value.uses() or value.is_graph_output()):
                try:
                    self._ops.operand(value)
                except ValueError as error:
                    raise _Open(f"{error}{_decided_by(value)}") from None

    def _fitting(self, node: ir.Node, made: Sequence[ir.Value | None]) -> Sequence[ir.Value | None]:
        if len(made) != len(node.inputs):
            raise _Unfit(f"it gives {len(made)} gradients for {len(node.inputs)} inputs")
        for index, (value, gradient) in enumerate(zip(node.inputs, made, strict=True)):
            if value is None or gradient is None:
                continue
            due, given = self._ops.operand(value), self._ops.operand(gradient)
            if (due.dtype, due.shape) != (given.dtype, given.shape):
                raise _Unfit(
                    f"the gradient of input {index} is {given.dtype.name}{list(given.shape)}, the "
                    f"input {due.dtype.name}{list(due.shape)}"
                )
        return made


def _decided_by(value: ir.Value) -> str:
    """Which op leaves a shape open although what it reads is static, as text; empty for none."""
    seen: set[ir.Value] = set()
    while (node := value.producer()) is not None:
        if value in seen:
            break
        seen.add(value)
        before = [v for v in consumed_values(node) if static_dims(v.shape) is None]
        if not before:
            name, kind = quote(node.name or ""), quote(node.op_type)
            return f", since node {name} ({kind}) makes shapes that depend on data"
        value = before[0]
    return ""


class _Unfit(Exception):  # noqa: N818 - it is an answer
    """A rule that fails, or gives what does not fit."""


class _Open(Exception):  # noqa: N818 - it is an answer
    """A value without a static shape."""


class _Faults:
    """Reasons against a gradient, one diagnostic for each code, type of op and reason."""

    _BY_CODE: Mapping[str, Callable[[str, str], tuple[str, str]]] = {
        "MCM-D030": lambda kind, _: (
            f"no gradient rule for {kind}, on the way from a variable to the loss",
            "register a gradient-rule, or leave the variables before it out with variables=PATTERN",
        ),
        "MCM-D031": lambda kind, reason: (
            f"{kind} has no gradient as it stands: {reason}",
            "write the op in another form, or leave the variables before it out with "
            "variables=PATTERN",
        ),
        "MCM-D034": lambda kind, reason: (
            f"gradients need static shapes, and at {kind} {reason}",
            "write that op in another form, or leave the variables before it out with "
            "variables=PATTERN"
            if "depend on data" in reason
            else "bind symbolic dimensions with --dim, or give sizes with --shape",
        ),
        "MCM-D035": lambda kind, reason: (
            f"the gradient rule of {kind} does not fit the op: {reason}",
            "check that the op is valid, or tell those who wrote the rule",
        ),
    }

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], list[ir.Node]] = {}

    def add(self, code: str, node: ir.Node, reason: str) -> None:
        self._found.setdefault((code, operator_of(node), reason), []).append(node)

    def throw(self) -> None:
        """Raises what was found."""
        if not self._found:
            return
        diagnostics: list[Diagnostic] = []
        for (code, operator, reason), nodes in self._found.items():
            kind = quote(operator)
            if len(nodes) > 1:
                kind = f"{kind} ({count_text(len(nodes), 'op')})"
            message, hint = self._BY_CODE[code](kind, reason)
            at = f"node {quote(nodes[0].name or '')} ({quote(nodes[0].op_type)})"
            diagnostics.append(Diagnostic(code, message, at=at, hint=hint))
        raise CompileError(diagnostics)
