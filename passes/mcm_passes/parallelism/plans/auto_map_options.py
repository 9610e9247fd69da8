"""What the planner `auto-map` is asked, with its own options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mcm_compiler.contracts.planning import PlanOptions

Search = Literal["dqn", "exact"]
"""Exact methods, whose answer is the plan. With `dqn` deep Q-learning searches as well, and the
plan records how far that ends from the exact answer."""


@dataclass(frozen=True)
class AutoMapOptions(PlanOptions):
    """What a user asks of a plan, and how it is to be found.

    Attributes:
        search: see `Search`.
        linkage: whether linkage groups are decided at once.
    """

    search: Search = "exact"
    linkage: bool = True
