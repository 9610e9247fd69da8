"""The op that one shard runs: as the whole one, with what it says about sizes made its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir


@dataclass(frozen=True)
class Extents:
    """Which part of a divided class a shard has.

    Attributes:
        start: first unit.
        stop: one past the last unit.
        units: of the whole class.
    """

    start: int
    stop: int
    units: int

    def of(self, extent: int) -> tuple[int, int]:
        """First element and one past the last, of each run of a dimension of the class.

        Args:
            extent: of a run; of the whole dimension for what all runs of the part have together.
        """
        scale = extent // self.units
        return self.start * scale, self.stop * scale


def changed_attributes(node: ir.Node, changes: Mapping[str, Any]) -> list[ir.Attr]:
    """The attributes of an op with other values for some, which it need not have had.

    Args:
        node: the op.
        changes: integers, texts, or tuples of either.
    """
    kept = [attribute for name, attribute in node.attributes.items() if name not in changes]
    return [*kept, *(_attribute(name, value) for name, value in changes.items())]


def _attribute(name: str, value: Any) -> ir.Attr:
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return ir.AttrStrings(name, list(value))
    if isinstance(value, tuple):
        return ir.AttrInt64s(name, list(value))
    return ir.AttrInt64(name, int(value))
