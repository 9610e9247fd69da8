"""All gradient rules that are installed, by operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRule
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.registry import GRADIENT_RULES


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
        hint="register a function from GradientRequest to gradients, or a mapping of them",
    )
