"""What the planner `auto-map` is asked, with its own options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mcm_compiler.contracts.planning import PlanOptions

Search = Literal["dqn", "exact"]
"""Deep Q-learning, held against exact methods; or those alone, which are quicker here."""


@dataclass(frozen=True)
class AutoMapOptions(PlanOptions):
    """What a user asks of a plan, and how it is to be found.

    Attributes:
        search: see `Search`.
        linkage: whether linkage groups are decided at once.
    """

    search: Search = "dqn"
    linkage: bool = True
