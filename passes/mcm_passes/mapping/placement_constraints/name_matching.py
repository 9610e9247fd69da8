"""Names that a user means: exact ones, patterns, and what is near to a name that is not there."""

from __future__ import annotations

import bisect
import difflib
import fnmatch
import re
from collections.abc import Sequence
from functools import cached_property

from mcm_compiler.diagnostics import quote

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
        """What the user may have meant."""
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
    """Whether it holds a wildcard."""
    return "*" in text or "?" in text


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern in which `*` stands for anything and `?` for one character, in linear time."""
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))
