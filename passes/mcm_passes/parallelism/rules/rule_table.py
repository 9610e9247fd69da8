"""All sharding rules that are installed, by operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from mcm_compiler.contracts.sharding.notation import factor_problem, read_template
from mcm_compiler.contracts.sharding.rules import OpFacts, RuleMaker, ShardingRule
from mcm_compiler.contracts.sharding.templates import rule_for_shapes
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault
from mcm_compiler.registry import SHARDING_RULES
from mcm_passes.parallelism.rules.operators.composing import whole


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

    def has(self, op_type: str, domain: str) -> bool:
        """Whether an operator has a rule; one without is run whole on every device."""
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
    return CompileError(
        Diagnostic(
            "MCM-S008",
            f"the sharding rule of {quote(registered.operator)} does not fit the op: {problem}",
            at=registered.origin,
            hint="check that the op is valid, or tell those who wrote its rule",
        )
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
        hint="register a rule text, a function from OpFacts to ShardingRule, or a mapping",
    )


def _of_text(text: str, origin: str) -> RuleMaker:
    try:
        read_template(text)
    except CompileError as error:
        raise CompileError(
            [replace(found, at=f"{found.at} of {origin}") for found in error.diagnostics]
        ) from error
    return lambda facts: rule_for_shapes(text, facts.input_shapes, facts.output_shapes)
