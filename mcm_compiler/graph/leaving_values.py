"""What leaves a set of ops."""

from __future__ import annotations

from collections.abc import Container

import onnx_ir as ir


def leaves(value: ir.Value, members: Container[ir.Node]) -> bool:
    """Whether a value that one of `members` makes is read by other ops, or a graph output."""
    return value.is_graph_output() or any(use.node not in members for use in value.uses())
