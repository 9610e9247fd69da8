"""Strategies that other strategies run."""

from __future__ import annotations

from typing import cast

from mcm_compiler.contracts.partition import PartitionStrategy
from mcm_compiler.registry import STRATEGIES
from mcm_compiler.text import spec_text


def strategy_of(text: str) -> PartitionStrategy:
    """The registered strategy that a text such as `dp{orders=2}` stands for.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for text, options and names.
    """
    spec = spec_text.parse_one(text)
    return cast("PartitionStrategy", spec_text.instantiate(STRATEGIES.get(spec.name), spec))
