"""The parts that a product adds to compiles for its targets, to their folders and reports.

It is the one contract between the compiler and products with targets that need more than a machine:
such a target has an attribute `addition`, the name of a component of kind `addition`. The compiler
asks the component where it maps chips, writes and checks folders, and makes reports and pages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from mcm_compiler.registry import ADDITIONS

if TYPE_CHECKING:
    from mcm_compiler.contracts.target import ChipModel
    from mcm_compiler.options import CompileOptions
    from mcm_compiler.text.headline import Headline

Report: TypeAlias = "Mapping[str, Any]"
OfFolder: TypeAlias = "Callable[[Path, Collection[str], Sequence[ChipModel], Any], Any]"
Search: TypeAlias = (
    "Callable[[Sequence[ChipModel], Any, CompileOptions, Callable[[str], None]], tuple[Any, ...]]"
)


def _nothing(*_: Any) -> Any:
    return None


def _empty(*_: Any) -> Any:
    return ()


class Optimum(NamedTuple):
    """A claim about a period that a search of the product has reached.

    Attributes:
        of: what was searched for, in words.
        reached_s: of a round of one pipeline, like the bound.
        bound_s: nothing in scope is shorter.
        model: that gives both.
        model_kind: of that model.
        proof: kind of the proof of the bound.
        scope: what the bound is about.
    """

    of: str
    reached_s: float
    bound_s: float
    model: str
    model_kind: Literal["cost model", "simulator"]
    proof: str
    scope: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OtherFolder:
    """A folder that another verb than `compile` wrote, as it is shown.

    Attributes:
        data: its report as JSON.
        text: its report as Markdown.
        headline: its verdict.
        tables: below the verdict.
        page: makes its `mcm_compiler.page.contents.Page`.
    """

    data: dict[str, Any]
    text: bytes
    headline: Headline
    tables: Sequence[Sequence[Sequence[str]]]
    page: Callable[[], Any]


@dataclass(frozen=True, eq=False)
class OtherTargets:
    """Targets that are no packages of chips, and folders of the verb that takes them.

    The manifest of such a folder names the addition as its kind.

    Attributes:
        words: such as "a cluster".
        code: of the diagnostic where they stand for a package.
        verb: of `mcmc` that takes them.
        doing: the work of that verb, such as "plan for it".
        numbers: those of a target that do not follow from others, as JSON, and words.
        described: a target with the cost models that its `TomlDescription` names, whose files
            the third argument reads; None for one alone.
        check_of: from a folder and the user's model, or None, a check with the keywords of
            `check_folder`.
        opened: opens a folder, of which hashes and figures are proven if the second argument says
            so.
        side: a folder as a `mcm_compiler.difference.sides.Side`.
        planned: answers a `mcm_compiler.contracts.planning.PlanRequest` for one.
        simulated: simulates a folder, and writes a timeline to a path where one is given; results
            as JSON, as sentences, and as rows of a table.
    """

    words: str
    code: str
    verb: str
    doing: str
    numbers: Callable[[Any], tuple[dict[str, Any], list[str]]]
    described: Callable[[Any, Any, Any], Any] = _nothing
    check_of: Callable[[Path, str | None], Callable[..., Any]] = _nothing
    opened: Callable[[Path, bool], OtherFolder] = _nothing
    side: Callable[[Path], Any] = _nothing
    planned: Callable[[Any], Any] = _nothing
    simulated: Callable[[Path, Path | None], tuple[Any, list[str], list[list[str]]]] = _nothing


@dataclass(frozen=True, eq=False)
class Addition:
    """The parts that targets of a product add; by default nothing.

    *Mapped chips* are the product's own records, one for each used chip, ascending; each has its
    index as `chip`. Folders hold them in files named as `layout.mapping_file` says.

    Attributes:
        search: maps the chips of a target before they are lowered, from their models, the target,
            the user's options and what is called with progress; targets that need it are
            `LowersMapped`.
        write: writes the mapped chips of a target into a folder.
        read: the mapped chips of a folder, from its path, the names of its files, its models and
            the target.
        check: proves them likewise, and returns a summary.
        facts: from a target and mapped chips, the section of a report that is named like the
            addition; None leaves it out.
        lines: the section of a report as Markdown; names in it may be hostile.
        page_section: the section as a `mcm_compiler.page.contents.Section`.
        optimum: the claim of a report with the section; None for that of the partition.
        busy_with: the engine that paces a chip of a report, and details of it; None for what its
            kernels say.
        other: set where the targets are no packages of chips.
    """

    search: Search = _empty
    write: Callable[[Path, Sequence[Any], Any], None] = _nothing
    read: OfFolder = _empty
    check: OfFolder = _nothing
    facts: Callable[[Any, Sequence[Any]], Mapping[str, Any] | None] = _nothing
    lines: Callable[[Report], Sequence[str]] = _empty
    page_section: Callable[[Report], Any] = _nothing
    optimum: Callable[[Report], Optimum | None] = _nothing
    busy_with: Callable[[Report, int], tuple[str, list[str]] | None] = _nothing
    other: OtherTargets | None = None


def addition_of(target: object) -> tuple[str, Addition] | None:
    """The addition that a target names, with its name; None where it names none.

    Raises:
        CompileError: MCM-U003 where it is not installed.
    """
    name = getattr(target, "addition", None)
    return None if name is None else (name, ADDITIONS.get(name))


def other_targets(target: object) -> OtherTargets | None:
    """The kind of a target that is no package of chips; None for packages."""
    found = addition_of(target)
    return None if found is None else found[1].other


def shown_by(report: Report) -> Addition | None:
    """The addition that a report has a section of."""
    names = (one.name for one in ADDITIONS.registrations())
    name = next((name for name in names if report.get(name) is not None), None)
    return None if name is None else ADDITIONS.get(name)
