"""The sharding rules of all ops of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import onnx_ir as ir

from mcm_compiler.contracts.sharding.notation import factor_problem, read_template
from mcm_compiler.contracts.sharding.rules import OpFacts, RuleMaker, ShardingRule
from mcm_compiler.contracts.sharding.templates import rule_for_shapes
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.op_classes import SHAPED_BY_VALUES
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault
from mcm_compiler.registry import SHARDING_RULES
from mcm_passes.parallelism.rules.operators.composing import whole

Shape = tuple[int | None, ...]

_MOST_ELEMENTS = 64
"""Elements of the largest constant that a rule may depend on."""

SPECIFYING: Mapping[str, tuple[int, ...]] = SHAPED_BY_VALUES | {
    "CumProd": (1,),
    "CumSum": (1,),
    "Dropout": (2,),
    "Gather": (1,),
    "Resize": (1, 2, 3),
}
"""Operands of ONNX's operators whose values their rules depend on; of others, all small ones."""

_Signature = tuple[
    str,
    str,
    tuple[tuple[str, Any], ...],
    tuple[Shape | None, ...],
    tuple[Shape | None, ...],
    tuple[tuple[int, tuple[int, ...]], ...],
]
"""Operator, domain, attributes, shapes of operands and of results, constants."""

_NUMBERS = (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.FLOAT, ir.DataType.BOOL)


def rules_of(model: ir.Model, table: RuleTable | None = None) -> list[tuple[ir.Node, ShardingRule]]:
    """Every node of the main graph with its rule, in graph order.

    Nodes that agree in operator, attributes, shapes and constants share one rule object.

    Args:
        model: with shapes, as the importer gives it.
        table: the installed rules unless given.

    Raises:
        CompileError: what `RuleTable.rule` raises.
    """
    return GraphRules(model, table or installed_rules()).all()


def missing_rules(model: ir.Model, table: RuleTable | None = None) -> list[Diagnostic]:
    """A note for every operator of the main graph that no rule is installed for."""
    table = table or installed_rules()
    counts = Counter((node.op_type, node.domain) for node in model.graph)
    missing = sorted((operator_name(*op), n) for op, n in counts.items() if not table.has(*op))
    return [
        Diagnostic(
            "MCM-S010", f"operator {quote(name)} has no sharding rule; {count} of them stay whole"
        )
        for name, count in missing
    ]


class GraphRules:
    """Reads the facts of nodes and remembers rules by them.

    Args:
        model: not changed while this lives.
        table: the rules.
    """

    def __init__(self, model: ir.Model, table: RuleTable) -> None:
        self._graph = model.graph
        self._versions = model.graph.opset_imports
        self._table = table
        self._shape_of: dict[ir.Value | None, Shape | None] = {None: None}
        self._shapes: dict[Sequence[int | ir.SymbolicDim], Shape] = {}
        self._constants: dict[ir.Value, tuple[int, ...] | None] = {}
        self._rules: dict[_Signature, ShardingRule] = {}
        self._rule_of: dict[ir.Node, ShardingRule] = {}

    def all(self) -> list[tuple[ir.Node, ShardingRule]]:
        """See `rules_of`."""
        return [(node, self.rule(node)) for node in self._graph]

    def rule(self, node: ir.Node) -> ShardingRule:
        """The rule of one node."""
        found = self._rule_of.get(node)
        if found is None:
            key = self.signature(node)
            found = self._rules.get(key)
            if found is None:
                found = self._rules[key] = self._table.rule(self._facts(key))
            self._rule_of[node] = found
        return found

    def facts(self, node: ir.Node) -> OpFacts:
        """Facts that the rule of a node may depend on."""
        return self._facts(self.signature(node))

    def signature(self, node: ir.Node) -> _Signature:
        op_type, attributes = node.op_type, node.attributes
        domain = "" if node.domain == "ai.onnx" else node.domain
        inputs, outputs = node.inputs, node.outputs
        # Called for every node of large graphs: known shapes are looked up without a call.
        known = self._shape_of
        for value in outputs:
            known[value] = self._shape(value)
        try:
            shapes = tuple([known[value] for value in inputs])
        except KeyError:
            for value in inputs:
                if value is not None:
                    known[value] = self._shape(value)
            shapes = tuple([known[value] for value in inputs])
        specifying = SPECIFYING.get(op_type) if not domain else range(len(inputs))
        return (
            op_type,
            domain,
            _plain(attributes) if attributes else (),
            shapes,
            tuple([known[value] for value in outputs]),
            self._specified(inputs, specifying) if specifying else (),
        )

    def _facts(self, key: _Signature) -> OpFacts:
        op_type, domain, attributes, inputs, outputs, constants = key
        version = self._versions.get(domain, 1)
        return OpFacts(op_type, domain, version, dict(attributes), inputs, outputs, dict(constants))

    def _specified(
        self, inputs: Sequence[ir.Value | None], operands: Iterable[int]
    ) -> tuple[tuple[int, tuple[int, ...]], ...]:
        found: list[tuple[int, tuple[int, ...]]] = []
        for operand in operands:
            value = inputs[operand] if operand < len(inputs) else None
            if value is not None:
                known = self._constant(value)
                if known is not None:
                    found.append((operand, known))
        return tuple(found)

    def _shape(self, value: ir.Value) -> Shape | None:
        shape = value.shape
        if shape is None:
            return None
        dims = shape.dims
        found = self._shapes.get(dims)
        if found is None:
            found = tuple([d if isinstance(d, int) and d >= 0 else None for d in dims])
            self._shapes[dims] = found
        return found

    def _constant(self, value: ir.Value) -> tuple[int, ...] | None:
        if value not in self._constants:
            self._constants[value] = _small_integers(value)
        return self._constants[value]


def _plain(attributes: Mapping[str, ir.Attr]) -> tuple[tuple[str, Any], ...]:
    """Attributes as plain values; tensors and graphs are left out."""
    found: list[tuple[str, Any]] = []
    for name, attribute in attributes.items():
        if attribute.is_ref():
            continue
        value = attribute.value
        if isinstance(value, (int, float, str, bytes)):
            found.append((name, value))
        elif isinstance(value, (tuple, list)) and all(
            isinstance(v, (int, float, str, bytes)) for v in value
        ):
            found.append((name, tuple(value)))
    return tuple(found)


def _small_integers(value: ir.Value) -> tuple[int, ...] | None:
    """Values of a small constant; floats (scales) count where all are whole numbers, and truths."""
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.dtype not in _NUMBERS or tensor.size > _MOST_ELEMENTS:
        return None
    values = tensor.numpy().ravel().tolist()
    return tuple(map(int, values)) if all(v == v // 1 for v in values) else None


@dataclass(frozen=True)
class RegisteredRule:
    """One rule maker.

    Attributes:
        operator: as in `operator_name`.
        maker: makes the rule of an op.
        origin: the distribution or file that it comes from.
    """

    operator: str
    maker: RuleMaker
    origin: str


def operator_name(op_type: str, domain: str) -> str:
    """The name that rules are registered under: `MatMul`, or `com.acme::Blend`."""
    return f"{domain}::{op_type}" if domain not in ("", "ai.onnx") else op_type


class RuleTable:
    """Rule makers by operator.

    Args:
        rules: no two for one operator.
    """

    def __init__(self, rules: Mapping[str, RegisteredRule]) -> None:
        self._rules = dict(rules)

    def operators(self) -> list[str]:
        """Those that have a rule, sorted."""
        return sorted(self._rules)

    def registered(self, operator: str) -> RegisteredRule | None:
        """The rule maker of an operator, with its origin."""
        return self._rules.get(operator)

    def with_maker(self, operator: str, maker: RuleMaker) -> RuleTable:
        """A table in which one of the operators has another rule."""
        found = replace(self._rules[operator], maker=maker)
        return RuleTable({**self._rules, operator: found})

    def has(self, op_type: str, domain: str) -> bool:
        """Return whether an operator has a rule; one without is run whole on every device."""
        return operator_name(op_type, domain) in self._rules

    def rule(self, facts: OpFacts) -> ShardingRule:
        """The rule of one op, checked against its shapes; all dimensions whole without a maker.

        So is an op of ONNX's own domain that its rule cannot read: a model may hold one that is
        not valid, but that onnxruntime runs.

        Raises:
            CompileError: MCM-S008 if a plug-in's rule does not fit the op, and what makers raise.
        """
        registered = self._rules.get(operator_name(facts.op_type, facts.domain))
        if registered is None:
            return whole(facts)
        try:
            return _checked(registered, facts)
        except CompileError:
            if facts.domain:
                raise
            return whole(facts)


def _checked(registered: RegisteredRule, facts: OpFacts) -> ShardingRule:
    try:
        made = registered.maker(facts)
    except BaseException as error:  # whatever a plug-in does
        if is_no_fault(error):
            raise
        problem = f"its maker fails with {fault_text(error)}"
        raise _unfit(registered, problem) from error
    problem = _misfit(made, facts)
    if problem is not None:
        raise _unfit(registered, problem)
    return made


def _unfit(registered: RegisteredRule, problem: str) -> CompileError:
    return CompileError.of(
        "MCM-S008",
        f"the sharding rule of {quote(registered.operator)} does not fit the op: {problem}",
        at=registered.origin,
    )


def _misfit(rule: ShardingRule, facts: OpFacts) -> str | None:
    sides = (
        ("operand", rule.inputs, facts.input_shapes),
        ("result", rule.outputs, facts.output_shapes),
    )
    for word, placed, shapes in sides:
        if len(placed) != len(shapes):
            return f"it has {len(placed)} {word}s, the op {len(shapes)}"
        for index, (dims, shape) in enumerate(zip(placed, shapes, strict=True)):
            if dims is None:
                continue
            if shape is not None and len(dims) != len(shape):
                return f"{word} {index} has {len(shape)} dimensions, in the rule {len(dims)}"
            factors = [factor for dim in dims for factor in dim]
            if any(not 0 <= factor < len(rule.factors) for factor in factors):
                return f"factors of {word} {index} do not exist"
            if len(set(factors)) < len(factors):
                return f"a factor stands twice in {word} {index}"
    for index, factor in enumerate(rule.factors):
        problem = factor_problem(factor, index, rule.inputs, rule.outputs)
        if problem is not None:
            return problem
    return None


@lru_cache(maxsize=1)
def installed_rules() -> RuleTable:
    """The rules of all entry points `sharding-rule.NAME`, and those of this process.

    Raises:
        CompileError: MCM-X001 if two distributions have a rule for one operator, MCM-S009 for an
            entry point that holds no rules, MCM-S001 to MCM-S007 for a text that is no rule.
    """
    return RuleTable(
        {
            operator: RegisteredRule(operator, _maker(held, origin), origin)
            for operator, (held, origin) in SHARDING_RULES.held(_is_rule, _no_rule).items()
        }
    )


def _maker(held: str | RuleMaker, origin: str) -> RuleMaker:
    return _of_text(held, origin) if isinstance(held, str) else held


def _is_rule(held: object) -> bool:
    return isinstance(held, str) or callable(held)


def _no_rule(name: str, held: object, origin: str) -> Diagnostic:
    return Diagnostic(
        "MCM-S009",
        f"entry point '{name}' holds {type(held).__name__} where a rule is due",
        at=origin,
    )


def _of_text(text: str, origin: str) -> RuleMaker:
    try:
        read_template(text)
    except CompileError as error:
        raise CompileError(
            [replace(found, at=f"{found.at} of {origin}") for found in error.diagnostics]
        ) from error
    return lambda facts: rule_for_shapes(text, facts.input_shapes, facts.output_shapes)
