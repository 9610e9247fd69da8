"""Where the user pins ops, and what can contradict."""

from __future__ import annotations

import bisect
import difflib
import fnmatch
import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import onnx_ir as ir

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.rounds import class_of
from mcm_passes.mapping.models import mapping_of

MOST_COMPARED = 400
"""Names that a misspelt one is compared with in full."""

SHOWN = 3


class KnownNames:
    """Names of ops and groups, in the order of the graph."""

    def __init__(self, names: Sequence[str]) -> None:
        self._all = dict.fromkeys(name for name in names if name)

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def matching(self, wanted: str) -> list[str]:
        """The name itself where it is known, else what the pattern matches; may be empty."""
        if wanted in self._all:
            return [wanted]
        if not is_pattern(wanted):
            return []
        matches = compiled(wanted).match
        return [name for name in self._all if matches(name)]

    def hint(self, wanted: str) -> str:
        """Likely meaning of a name: an op of a round or a division, or a name that is near."""
        found = class_of(wanted)
        name = wanted if found is None else found[0]
        if found is not None and name in self._all:
            return f"'@{found[1]}' is of an op in rounds: give `--round`, as that compile had it"
        whole, mark, _ = name.rpartition("/")
        if mark and whole in self._all:
            division = "give `parallelize` the option that note MCM-P071 of that compile names"
            return f"{quote(whole)} was divided there: {division}, with --passes"
        near = self._nearest(wanted)
        if not near:
            return "mcmc opt prints the names of all ops"
        return f"did you mean {' or '.join(quote(name) for name in near)}?"

    def _nearest(self, wanted: str) -> list[str]:
        stem = wanted.replace("*", "").replace("?", "")
        candidates = self._candidates(stem)
        near = difflib.get_close_matches(stem, candidates, n=SHOWN)
        if near:
            return near
        # A pattern is much shorter than what it was meant for: names that begin alike.
        alike = {name: _letters_in_common(name, stem) for name in candidates}
        most = max(alike.values(), default=0)
        return [name for name in candidates if alike[name] == most > 1][:SHOWN]

    def _candidates(self, stem: str) -> list[str]:
        """All names where there are few; else those with the most letters in common at an end."""
        if len(self._all) <= MOST_COMPARED:
            return list(self._all)
        forward, backward = self._sorted
        each = MOST_COMPARED // 4
        at = bisect.bisect(forward, stem)
        found = forward[max(0, at - each) : at + each]
        at = bisect.bisect(backward, stem[::-1])
        found += [name[::-1] for name in backward[max(0, at - each) : at + each]]
        return list(dict.fromkeys(found))

    @cached_property
    def _sorted(self) -> tuple[list[str], list[str]]:
        return sorted(self._all), sorted(name[::-1] for name in self._all)


def _letters_in_common(first: str, second: str) -> int:
    """How many letters two names begin alike with."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(first), len(second)))


def is_pattern(text: str) -> bool:
    """Return whether it holds a wildcard."""
    return "*" in text or "?" in text


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern in which `*` stands for anything and `?` for one character, in linear time."""
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


MAX_FAULTS = 10
"""Contradictions that are spelled out."""

AT = "option --pin"


def known_names(model: ir.Model, plan: FusionPlan) -> KnownNames:
    """Names that a pin or an assignment may use: those of ops and of fusion groups."""
    nodes = [node.name or "" for node in placeable_nodes(model.graph)]
    return KnownNames([*nodes, *(group.name for group in plan.groups)])


def match_pins(pins: Sequence[tuple[str, int]], names: KnownNames) -> dict[str, int]:
    """The chip of each name that a pin matches.

    Args:
        pins: names or patterns, and chips.
        names: of the graph.

    Raises:
        CompileError: MCM-F011 for a pin that matches nothing, MCM-F012 where two pins want one op
            on two chips.
    """
    chip_of: dict[str, int] = {}
    by: dict[str, str] = {}
    faults: list[Diagnostic] = []
    for wanted, chip in pins:
        found = names.matching(wanted)
        if not found:
            message = f"{quote(wanted)} is pinned to chip {chip}, and no op or group has that name"
            faults.append(Diagnostic("MCM-F011", message, at=AT, hint=names.hint(wanted)))
        for name in found:
            if chip_of.setdefault(name, chip) == chip:
                by.setdefault(name, wanted)
                continue
            if len(faults) < MAX_FAULTS:
                message = (
                    f"{quote(name)} is pinned to chip {chip_of[name]} by {quote(by[name])} and to "
                    f"chip {chip} by {quote(wanted)}"
                )
                hint = "an op runs on one chip; leave one of the two out"
                faults.append(Diagnostic("MCM-F012", message, at=AT, hint=hint))
            break
    CompileError.raise_any(faults)
    return chip_of


def refuse_contradictions(problem: PartitionProblem, pins: Mapping[str, int]) -> None:
    """Refuses pins that no partition can keep.

    Args:
        problem: with the pins in `pinned_chip`.
        pins: from `match_pins`.

    Raises:
        CompileError: MCM-F012 for ops of one unit on two chips, and for what the
            family adds: on a ring dataflow against it, and chips that would have to stay empty.
    """
    faults = _torn_units(problem, pins)
    if not faults and int(problem.pinned_chip.max(initial=-1)) < problem.num_chips:
        faults = mapping_of(problem).contradictions(problem)
    if faults:
        raise CompileError(faults[:MAX_FAULTS])


def _torn_units(problem: PartitionProblem, pins: Mapping[str, int]) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    for unit, members in zip(problem.names, problem.members, strict=True):
        wanted = {name: pins[name] for name in (unit, *members) if name in pins}
        if len(set(wanted.values())) > 1:
            first, *rest = wanted
            second = next(name for name in rest if wanted[name] != wanted[first])
            message = (
                f"{quote(first)} is pinned to chip {wanted[first]} and {quote(second)} to chip "
                f"{wanted[second]}, but they stay together in {quote(unit)}"
            )
            hint = "pin both to one chip, or compile without `fuse` (--passes)"
            faults.append(Diagnostic("MCM-F012", message, at=AT, hint=hint))
    return faults
