"""Interfaces of earlier releases: what replaces each, and the release that removes it.

The page `docs/reference/deprecations.md` has the same table.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class Deprecation(NamedTuple):
    """An interface that still works.

    Attributes:
        what: the interface.
        instead: its replacement.
        warning: code of the note that its use gives, which Python code gets as a
            `DeprecationWarning` as well; or that warning alone.
        removed: the release that removes it.
    """

    what: str
    instead: str
    warning: str
    removed: str


Key = Literal[
    "entry-point groups", "decorators", "invalidates", "trainer options", "training card",
    "place_model",
]  # fmt: skip

DEPRECATIONS: Final[dict[Key, Deprecation]] = {
    "entry-point groups": Deprecation(
        "entry-point groups such as `mcm_compiler.passes`",
        "names `KIND.NAME` in the group `mcm_compiler.plugins`",
        "MCM-X015",
        "0.3.0",
    ),
    "decorators": Deprecation(
        "decorators such as `register_pass`", '`register("pass")`', "MCM-X015", "0.3.0"
    ),
    "invalidates": Deprecation(
        "`Pass.invalidates`",
        "nothing: facts are dropped with the graph that they were derived from",
        "MCM-X015",
        "0.3.0",
    ),
    "trainer options": Deprecation(
        "options of trainers as options of `mcmc train`, such as `--samples 400`",
        "`--set samples=400`",
        "MCM-U007",
        "0.3.0",
    ),
    "training card": Deprecation(
        "states of a training that release 0.1.0 wrote",
        "the state that `mcmc train --resume` writes",
        "MCM-L014",
        "0.3.0",
    ),
    "place_model": Deprecation(
        "`mcm_compiler.api.place_model`", "`mcm_compiler.place`", "DeprecationWarning", "0.3.0"
    ),
}


def removed_with(key: Key) -> str:
    """Such as `removed with release 0.3.0`."""
    return f"removed with release {DEPRECATIONS[key].removed}"
