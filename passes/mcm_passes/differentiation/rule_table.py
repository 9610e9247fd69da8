"""All gradient rules that are installed, by operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRule
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.registry import GRADIENT_RULES, twice


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
    """The rules of all entry points of `mcm_compiler.gradient_rules`, and those of this process.

    Raises:
        CompileError: MCM-X001 if two distributions have a rule for one operator, MCM-D037 for an
            entry point that holds no rules.
    """
    rules: dict[str, RegisteredGradient] = {}
    for registration in GRADIENT_RULES.registrations():
        component: Any = GRADIENT_RULES.get(registration.name)
        held = component if isinstance(component, Mapping) else {registration.name: component}
        for operator, rule in cast("dict[Any, Any]", held).items():
            if not isinstance(operator, str) or not callable(rule):
                raise _no_rule(registration.name, rule, registration.origin)
            other = rules.get(operator)
            if other is not None:
                raise twice("gradient rule", operator, other.origin, registration.origin)
            rules[operator] = RegisteredGradient(
                operator, cast("GradientRule", rule), registration.origin
            )
    return rules


def _no_rule(name: str, held: object, origin: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "MCM-D037",
            f"entry point {quote(name)} holds {type(held).__name__} where a gradient rule is due",
            at=origin,
            hint="register a function from GradientRequest to gradients, or a mapping of them",
        )
    )
