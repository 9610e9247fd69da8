"""Checkers of proofs by name, asked so that one that misbehaves is told and not believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcm_compiler.registry import OBJECTIVE_PROOFS, PROOF_CHECKERS, Registry


@dataclass(frozen=True)
class NamedChecker:
    """A registered `ProofChecker` or `ObjectiveChecker`.

    Attributes:
        registry: that knows it.
        name: of the kind of proof.
        checker: the component, of which nothing is known.
    """

    registry: Registry[Any] = field(compare=False)
    name: str
    checker: Any = field(compare=False)

    @property
    def undecided(self) -> str:
        """Why `rules_out` may say nothing; MCM-X007 for what fails."""
        with self.registry.at_work(self.name):
            return str(self.checker.undecided)

    @property
    def effort(self) -> int:
        """As `ProofChecker.effort`; MCM-X007 for what fails or is no number."""
        with self.registry.at_work(self.name):
            return int(self.checker.effort)

    def rules_out(self, *question: Any) -> bool | None:
        """The checker's verdict.

        Raises:
            CompileError: MCM-X007 where it fails, or answers otherwise than by yes, no and nothing:
                whatever else Python takes for true would be a proof.
        """
        with self.registry.at_work(self.name):
            shown = self.checker.rules_out(*question)
            if shown is None or isinstance(shown, bool | np.bool_):
                return None if shown is None else bool(shown)
            raise TypeError(f"it answers with a {type(shown).__name__}, not with True or False")


def proof_checker(name: str) -> NamedChecker | None:
    """The checker of a kind of proof of bounds on the period; None where there is none.

    Raises:
        CompileError: MCM-X003 for one that cannot be imported.
    """
    return _known(PROOF_CHECKERS, name)


def objective_checker(name: str) -> NamedChecker | None:
    """The same of bounds on objectives."""
    return _known(OBJECTIVE_PROOFS, name)


def all_proof_checkers() -> list[NamedChecker]:
    """All checkers of bounds on the period, by name.

    Raises:
        CompileError: MCM-X003 for one that cannot be imported.
    """
    names = [registration.name for registration in PROOF_CHECKERS.registrations()]
    return [NamedChecker(PROOF_CHECKERS, name, PROOF_CHECKERS.get(name)) for name in names]


def _known(registry: Registry[Any], name: str) -> NamedChecker | None:
    return NamedChecker(registry, name, registry.get(name)) if name in registry else None
