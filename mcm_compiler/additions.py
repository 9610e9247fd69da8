"""The parts that a product adds to compiles for its targets, to their folders and reports.

It is the one contract between the compiler and products with targets that need more than a machine:
such a target has an attribute `addition`, the name of a component of kind `addition`. The compiler
asks the component where it maps chips, writes and checks folders, and makes reports and pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcm_compiler.registry import ADDITIONS

if TYPE_CHECKING:
    from mcm_compiler.artifact.manifest import Manifest
    from mcm_compiler.contracts.target import ChipModel, Target
    from mcm_compiler.pipeline.passes import PassContext


class Optimum(NamedTuple):
    """A claim about a period that a search of the product has reached.

    Attributes:
        of: what was searched for, in words.
        reached_s: of a round of one pipeline, like the bound.
        bound_s: nothing in scope is shorter.
        model: that gives both.
        proof: kind of the proof of the bound.
        scope: what the bound is about.
    """

    of: str
    reached_s: float
    bound_s: float
    model: str
    proof: str
    scope: tuple[str, ...]


class Addition:
    """The parts that targets of a product add; by default nothing.

    *Mapped chips* are the product's own records, one for each used chip, ascending; each has its
    index as `chip`. Folders hold them in files named as `layout.mapping_file` says.
    """

    def search(self, chips: Sequence[ChipModel], context: PassContext) -> tuple[Any, ...]:
        """Maps the chips, before they are lowered; targets that need it are `LowersMapped`."""
        return ()

    def write(self, folder: Path, mapped: Sequence[Any], target: Target) -> None:
        """Writes the mapped chips into a folder."""

    def read(
        self, folder: Path, manifest: Manifest, chips: Sequence[ChipModel], target: Target
    ) -> tuple[Any, ...]:
        """The mapped chips of a folder, whose files have the hashes of its manifest.

        Raises:
            CompileError: where its files cannot be read.
        """
        return ()

    def check(
        self, folder: Path, manifest: Manifest, chips: Sequence[ChipModel], target: Target
    ) -> str:
        """Proves the mapped chips of a folder.

        Returns:
            A summary.

        Raises:
            CompileError: where a file does not follow from the rest of the folder.
        """
        return "nothing to prove"

    def facts(self, target: Target, mapped: Sequence[Any]) -> Mapping[str, Any] | None:
        """The section of a report that is named like the addition; None leaves it out."""
        return None

    def lines(self, report: Mapping[str, Any]) -> list[str]:
        """The section as Markdown.

        Args:
            report: that has the section, made printable; names in it may be hostile.
        """
        return []

    def page_section(self, report: Mapping[str, Any]) -> Any:
        """The section as a `mcm_compiler.page.contents.Section`; None leaves it out."""
        return None

    def optimum(self, report: Mapping[str, Any]) -> Optimum | None:
        """The claim of a report with the section; None for that of the partition."""
        return None

    def busy_with(self, report: Mapping[str, Any], chip: int) -> tuple[str, list[str]] | None:
        """The engine that paces a chip, and details of it; None for what its kernels say."""
        return None


def addition_of(target: object) -> tuple[str, Addition] | None:
    """The addition that a target names, with its name; None where it names none.

    Raises:
        CompileError: MCM-U003 where it is not installed.
    """
    name = getattr(target, "addition", None)
    return None if name is None else (name, ADDITIONS.get(name))


def shown_by(report: Mapping[str, Any]) -> Addition | None:
    """The addition that a report has a section of."""
    names = (one.name for one in ADDITIONS.registrations())
    name = next((name for name in names if report.get(name) is not None), None)
    return None if name is None else ADDITIONS.get(name)
