"""Content of a project file as read: nothing is looked up yet, and nothing compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from mcm_compiler.text.toml_description import KeyPath, TomlDescription

FILE_NAME = "mcmc.toml"
"""The project file's name where none is given."""

DEFAULT_OUTPUT = "build/mcmc"
DEFAULT_BASELINE = ".mcmc-baseline"
DEFAULT_CACHE = ".mcmc-cache"
DEFAULT_CACHE_LIMIT_BYTES = 2 << 30
DEFAULT_TARGETS = ("mcm36",)


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of a compiled model; None where nothing is asked.

    Attributes:
        min_throughput_per_s: inferences per second.
        max_latency_s: seconds from the input of an inference to its output.
        max_gap: distance of the period from the lower bound, as a share of that.
        max_regression: share by which the throughput may be below that of the baseline.
    """

    min_throughput_per_s: float | None = None
    max_latency_s: float | None = None
    max_gap: float | None = None
    max_regression: float | None = None


@dataclass(frozen=True)
class ExpectedFailure:
    """A failure that is known, and has a reason.

    Attributes:
        code: of the error that the compile has to end with.
        reason: why that is so, for readers.
        targets: as the file writes them; empty for all.
        place: of the key, for diagnostics.
    """

    code: str
    reason: str
    targets: tuple[str, ...]
    place: str


@dataclass(frozen=True)
class Settings:
    """Settings that defaults, models and profiles may all have; None or empty is unset.

    Attributes:
        targets: names of targets, or paths of descriptions.
        levels: of effort: numbers, names or paths.
        dims: sizes of symbolic dimensions by name.
        shapes: shapes of inputs by name.
        state: pairs of an input and the output that is handed on to it; empty for none, but None
            where nothing is said.
        inputs: path of an `.npz` file.
        thresholds: what is asked of the figures.
        options: further options of a compile by their field of `CompileOptions`, and
            `sensitivities`.
    """

    targets: tuple[str, ...] = ()
    levels: tuple[int | str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    state: tuple[tuple[str, str], ...] | None = None
    inputs: str | None = None
    thresholds: Thresholds = Thresholds()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def over(self, below: Settings) -> Settings:
        """These settings where they say something, and those of `below` where they do not.

        Dimensions, shapes, thresholds and options are merged one by one, the others replaced.
        """
        asked = {
            name: mine if mine is not None else getattr(below.thresholds, name)
            for name, mine in vars(self.thresholds).items()
        }
        return Settings(
            self.targets or below.targets,
            self.levels or below.levels,
            {**below.dims, **self.dims},
            {**below.shapes, **self.shapes},
            self.state if self.state is not None else below.state,
            self.inputs if self.inputs is not None else below.inputs,
            Thresholds(**asked),
            {**below.options, **self.options},
        )

    @property
    def option_names(self) -> list[str]:
        """The fields of `CompileOptions` that are given."""
        named = {
            "level": self.levels,
            "dims": self.dims,
            "shapes": self.shapes,
            "state": self.state is not None,
            "input": self.inputs,
            **{name: name != "sensitivities" for name in self.options},
        }
        return sorted(name for name, given in named.items() if given)


@dataclass(frozen=True)
class Profile:
    """One way in which a model is used, such as the decoding of a language model.

    Attributes:
        name: of its output folder; empty where a model has no profiles.
        settings: that win over those of the model.
        expected: a failure that is known, or None.
        path: of its table in the file.
    """

    name: str
    settings: Settings
    expected: ExpectedFailure | None
    path: KeyPath


@dataclass(frozen=True)
class ModelSection:
    """One `[[models]]` table.

    Attributes:
        files: patterns, paths, and names of the zoo.
        exclude: patterns of files that are left out.
        name: of its only model, or None to take the name from the file.
        settings: that win over the defaults.
        expected: a failure that is known, or None.
        profiles: at least one.
        path: of its table in the file.
    """

    files: tuple[str, ...]
    exclude: tuple[str, ...]
    name: str | None
    settings: Settings
    expected: ExpectedFailure | None
    profiles: tuple[Profile, ...]
    path: KeyPath


@dataclass(frozen=True)
class ProjectFile:
    """A project file without faults of its own.

    Attributes:
        path: of the file; all paths in it are relative to its folder.
        description: its text and values, for the places of diagnostics.
        output: folder of the output folders.
        baseline: folder of the accepted baseline.
        cache: folder of the cache.
        cache_limit_bytes: above which the least recently used entries go.
        plugins: paths of plug-in files.
        html: whether each cell has a page, and all of them an index.
        defaults: of all models.
        models: the sections in order.
        over: settings of the command line, which win over those of the file.
    """

    path: Path
    description: TomlDescription
    output: str
    baseline: str
    cache: str
    cache_limit_bytes: int
    plugins: tuple[str, ...]
    html: bool
    defaults: Settings
    models: tuple[ModelSection, ...]
    over: Settings = Settings()

    @property
    def root(self) -> Path:
        """The folder that paths are relative to."""
        return self.path.absolute().parent


@dataclass(frozen=True)
class Cell:
    """One compile of a build.

    Attributes:
        model: path relative to the project's folder, or `zoo:NAME`.
        folder: its output folder below that of the build; its name in summaries as well.
        target: a name, or a path relative to the project's folder.
        dims: sizes of symbolic dimensions.
        lenient: names of `dims` that a model may lack.
        inputs: path of an `.npz` file relative to the project's folder, or None.
        options: fields of `CompileOptions` besides `dims` and `input`.
        thresholds: what is asked of the figures.
        expected: a failure that is known on this target, or None.
        place: in the project file.
        sources: of options, by their field of `CompileOptions`.
    """

    model: str
    folder: PurePosixPath
    target: str
    dims: Mapping[str, int]
    lenient: frozenset[str]
    inputs: str | None
    options: Mapping[str, Any]
    thresholds: Thresholds
    expected: ExpectedFailure | None
    place: str
    sources: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def title(self) -> str:
        """How the cell is named."""
        return str(self.folder)
