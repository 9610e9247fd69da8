"""Descriptions of components in lists, and of targets in description files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar, runtime_checkable

from mcm_compiler.contracts.cost import CostModel


class Named(Protocol):
    """A component that is listed, such as by `mcmc targets` or `mcmc strategies`."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """One line for lists."""
        ...


@runtime_checkable
class NeedsExtra(Protocol):
    """A component that runs only where an extra of pip is installed."""

    @property
    def extra(self) -> str:
        """Name of the extra, such as `learn`; a class attribute, so that lists can show it."""
        ...


class Described(Named, Protocol):
    """A target that is made from a description file."""

    @property
    def source_text(self) -> str:
        """The description that the target was made from (TOML); stored with compiled models."""
        ...

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers by section and key, for `mcmc targets show`.

        Keys have their units in their names; defaults are filled in, and a section `derived` has
        what follows from the others.
        """
        ...

    def cost_model(self) -> CostModel:
        """The fast analytic model of one chip or device."""
        ...


Made_co = TypeVar("Made_co", bound=Described, covariant=True)


class TargetFamily(Protocol[Made_co]):
    """Constructor of a target, a cluster or a box from a description file of one family.

    Registered as kind `target-family` by the `family` key of the file.
    """

    def __call__(self, name: str, text: str) -> Made_co:
        """Makes the target.

        Raises:
            CompileError: with one diagnostic per fault of the description.
        """
        ...
