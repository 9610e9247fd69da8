"""Levels of effort: which search each verb runs, and how much it may spend, as data.

`-O2` names a level, `-O ./long.toml` a file that describes one. Levels of the compiler and
of plug-ins are registered as kind `level`. Packages of chips, chips that are fabrics, and hosts
with accelerators have the same levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import LEVELS
from mcm_compiler.text import spec_text
from mcm_compiler.text.option_fields import at_least, checked
from mcm_compiler.text.toml_description import TomlDescription, parse_description, read_description

LEAST_EVALUATIONS = 200
"""Partitions that a strategy may evaluate on any problem, however large."""

LEAST_PLACEMENTS = 100
"""Placements that a placer may simulate of any step, however large."""


@dataclass(frozen=True)
@checked(
    most_evaluations=at_least(1),
    unit_evaluations=at_least(1),
    further=at_least(0),
    divisions=at_least(0),
    rounds=at_least(1),
    mappings=at_least(1),
    measured_mappings=at_least(1),
    measured_hops=at_least(1),
    placements=at_least(1),
    placement_ops=at_least(1),
)
class Level:
    """A level of effort.

    Attributes:
        name: as after `-O`.
        summary: one line for `mcmc strategies`.
        strategy: text form of the strategy.
        effort_s: deterministic seconds of exact solvers.
        gap: share by which a period may exceed a bound for the search to end there.
        most_evaluations: partitions that a strategy may evaluate if there are few units.
        unit_evaluations: units that may be evaluated, over all evaluations, so that the time
            hardly depends on the size of a problem; one takes about 40 ns.
        further: numbers of replicas that may be searched in full in addition to the best.
        rounds: inferences that one pipeline may compute together at most; 1 for one at a time.
        judged_pipelines: whether the simulator takes part in the choice of the number of replicas;
            otherwise the analytic model alone decides.
        divisions: divisions of ops that may be built and compared with the model as it is.
        mapper: text form of the mapper for chips that are fabrics.
        mapping_model: text form of its mapping model.
        mappings: mappings of a chip that the model may evaluate.
        measured_mappings: mappings of a chip that may be measured.
        measured_hops: estimated hops of flits for all of these measurements; if one mapping of a
            large chip already takes more, one is measured.
        objective_strategy: text form of the strategy for objectives that strategies for the period
            do not support.
        placer: text form of the placer of `mcmc place`.
        placements: placements that it may simulate if the step has few ops.
        placement_ops: ops that it may simulate, over all placements; one takes about 0.3 us.

    Raises:
        ValueError: for numbers out of range.
    """

    name: str
    summary: str
    strategy: str
    effort_s: float = 5.0
    gap: float = 5e-4
    most_evaluations: int = 40_000
    unit_evaluations: int = 2 * 10**7
    further: int = 1
    rounds: int = 1
    judged_pipelines: bool = True
    divisions: int = 3
    mapper: str = "annealing"
    mapping_model: str = "auto"
    mappings: int = 100_000
    measured_mappings: int = 6
    measured_hops: int = 2 * 10**9
    objective_strategy: str = "frontier"
    placer: str = "portfolio"
    placements: int = 20_000
    placement_ops: int = 4 * 10**8

    def __post_init__(self) -> None:
        if not 0.0 <= self.effort_s < float("inf"):
            raise ValueError(f"effort_s is {self.effort_s}, not a number of seconds")
        if not 0.0 <= self.gap < 1.0:
            raise ValueError(f"gap is {self.gap}, not a share from 0 to 1")

    def evaluations(self, num_units: int) -> int:
        """Partitions that a strategy may evaluate on a problem of this number of units."""
        affordable = self.unit_evaluations // max(num_units, 1)
        return _between(LEAST_EVALUATIONS, affordable, self.most_evaluations)

    def placements_of(self, num_ops: int) -> int:
        """Placements that a placer may simulate of a step of this number of ops."""
        affordable = self.placement_ops // max(num_ops, 1)
        return _between(LEAST_PLACEMENTS, affordable, self.placements)


def _between(least: int, affordable: int, most: int) -> int:
    """A number of evaluations; the most that a level allows may be below the least of others."""
    return max(min(affordable, most), min(least, most))


def load_level(name_or_path: int | str) -> Level:
    """The level of a number or name, or the one that a file describes.

    Anything that ends in `.toml` or holds a path separator is a path.

    Raises:
        CompileError: MCM-U003 for an unknown name, MCM-U008 for a file that cannot be read,
            MCM-U002 for what it says, MCM-X007 for what is registered and is no level.
    """
    text = str(name_or_path)
    path = Path(text)
    if path.suffix != ".toml" and len(path.parts) < 2:
        level = LEVELS.get(text)
        with LEVELS.at_work(text):
            if not isinstance(level, Level):
                raise TypeError(f"it is a {type(level).__name__}, no Level")
        return level
    try:
        description = parse_description(text, read_description(text, "level"), "level")
    except CompileError as error:
        hint = "see docs/explanation/partitioning.md for the form"
        raise error.changed(code="MCM-U008", hint=hint) from error
    return _described(path.stem, description)


def _described(stem: str, description: TomlDescription) -> Level:
    data: Mapping[str, Any] = {"name": stem, "summary": description.name, **description.data}
    options = tuple((key, _text(value)) for key, value in data.items())
    try:
        return spec_text.instantiate(Level, spec_text.Spec("level", options))
    except CompileError as error:
        raise CompileError(
            [replace(d, at=f"{description.name}: {d.at}") for d in error.diagnostics]
        ) from error


def _text(value: Any) -> str:
    """A TOML value as options are written; a table or array is no value that a level has."""
    return str(value).lower() if isinstance(value, bool) else str(value)
