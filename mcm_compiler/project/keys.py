"""Every key of a project file: where it may stand, what it may be, and what it means."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mcm_compiler.options import CompileOptions
from mcm_compiler.project import values
from mcm_compiler.project.values import Rule
from mcm_compiler.text.option_fields import Option, options_of

MAX_WHOLE = 2**63 - 1


@dataclass(frozen=True)
class Key:
    """One key.

    Attributes:
        name: as it is written.
        rule: what it may be.
        summary: what it means, for the reference.
        option: what it sets of a compile: a field of `CompileOptions`, or `sensitivities`; else
            empty.
    """

    name: str
    rule: Rule
    summary: str
    option: str = ""


_PROJECT = (
    Key("output", values.text(), "folder of the output folders (`build/mcmc`)"),
    Key("baseline", values.text(), "folder of the accepted baseline (`.mcmc-baseline`)"),
    Key("cache", values.text(), "folder of the cache (`.mcmc-cache`)"),
    Key("cache_limit", values.size(), 'above it the least recently used entries go (`"2 GiB"`)'),
    Key("plugins", values.texts("a path, or a list of paths"), "plug-in files, as `--plugin`"),
    Key("html", values.flag(), "a page of each cell, and an index of them, as `--html`"),
)

_COMMON = (
    Key("targets", values.texts(), "names of targets, or paths of descriptions (`mcm36`)"),
    Key("level", values.level(), "effort of the search, as `-O`"),
    Key("levels", values.levels(), "several of them, each a cell of its own"),
    Key("dims", values.sizes(), "sizes of symbolic dimensions, as `--dim`"),
    Key("shapes", values.shapes(), "shapes of inputs, as `--shape`"),
    Key("state", values.pairs(), "inputs that an output of the run before is handed on to"),
    Key("inputs", values.text(), "`.npz` file with sample inputs, for the compile and the check"),
    Key("min_throughput", values.rate(), "least throughput"),
    Key("max_latency", values.duration(), "longest latency of an inference"),
    Key("max_gap", values.share(math.inf), "largest distance of the period from its lower bound"),
    Key("max_regression", values.share(1.0), "fall of throughput that is allowed (`3%`)"),
)

_RULES: dict[str, Rule] = {
    "text": values.text(),
    "file": values.text(),
    "flag": values.flag(),
    "switch": values.flag(),
    "duration": values.duration(),
    "rate": values.rate(),
    "places": values.chips(),
    "pins": values.pins(),
    "sizes": values.sizes(),
}
"""By the form of an option."""


def option_keys(record: type) -> tuple[Key, ...]:
    """The keys of the fields of a record of options."""
    return tuple(
        Key(option.key, _rule(option), f"as `{option.flag}`", option.name)
        for option in options_of(record)
        if option.key is not None
    )


def _rule(option: Option) -> Rule:
    if option.form == "choice":
        return values.one_of(option.choices)
    if option.form == "whole":
        return values.whole(option.low or 0, option.high or MAX_WHOLE)
    return _RULES[option.form]


_OPTIONS = (
    *option_keys(CompileOptions),
    Key("sensitivities", values.flag(), "as `--sensitivities`", "sensitivities"),
)

_FAILURE = Rule("a table", lambda value: value)
_TABLES = Rule("tables", lambda value: value)

_MODEL = (
    Key("files", values.texts(), "patterns, paths, and names of the zoo"),
    Key("exclude", values.texts(), "patterns of files that are left out"),
    Key("name", values.folder_name(8), "of the only model; else the path of its file"),
    Key("expected_failure", _FAILURE, "a failure that is known: the build fails without it"),
    Key("profiles", _TABLES, "ways in which the model is used, each a cell of its own"),
)

_PROFILE = (
    Key("name", values.folder_name(1), "of the profile"),
    Key("expected_failure", _FAILURE, "as for a model"),
)


def _by_name(*groups: tuple[Key, ...]) -> dict[str, Key]:
    return {key.name: key for group in groups for key in group}


SETTING_KEYS = _by_name(_COMMON, _OPTIONS)
"""Keys of defaults, models and profiles alike."""

DEFAULT_KEYS = _by_name(_PROJECT, _COMMON, _OPTIONS)
"""Keys of `[defaults]`, which may stand at the top of the file as well."""

MODEL_KEYS = _by_name(_MODEL, _COMMON, _OPTIONS)
PROFILE_KEYS = _by_name(_PROFILE, _COMMON, _OPTIONS)

FAILURE_KEYS = _by_name(
    (
        Key("code", values.code(), "of the error that the compile ends with"),
        Key("reason", values.text(), "why it is expected"),
        Key("targets", values.texts(), "on which it is expected (all)"),
    )
)
"""Keys of `expected_failure`."""
