"""`mcmc train`: what the compiler learns, trained on this machine or on a cluster.

Progress of a training: a bar with rates on a terminal, or lines; curves for TensorBoard.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.show import old_spelling, show_diagnostics, show_json, show_table, status_line
from mcm_compiler.cli.verb import FORMAT, Several, argument, fields_of, verb
from mcm_compiler.contracts.requests import TrainingRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.option_fields import asked, option_of
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from mcm_compiler.contracts.training import TrainingProgress, TrainingResult

OLD_OPTIONS = (
    "target", "data_set", "recipe", "samples", "checkpoints", "workers", "scheduler",
)  # fmt: skip
"""Options of trainers that were options of the command line; one release more."""

_OLD: Any = Several([option_of(name, asked("text", "", "", hidden=True)) for name in OLD_OPTIONS])


@verb(
    (
        "train",
        "train policy -o policy --set samples=400",
        "train policy -o policy --set samples=400 --resume",
    ),
    one_thread=True,
)
def command(
    trainer: str | None = argument(
        "[NAME]", required=False, names="TRAINERS"
    ),
    output: Path | None = asked(
        "path", "", "Output folder of the training, with the policy.", short="-o"
    ),
    settings: tuple[tuple[str, str], ...] = asked(
        "settings", "", "Option of the trainer. Repeatable.", (),
        flag="--set", metavar="OPTION=VALUE",
    ),
    options: dict[str, Any] = fields_of(TrainingRequest),
    tensorboard: Path | None = asked(
        "path", "", "Folder for TensorBoard event files with the training curves."
    ),
    old: dict[str, str] = _OLD,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Train NAME, or NAME{option=value,...}; without a name, list the trainers.

    Trained components come with the compiler; train your own for other packages, models or recipes.
    --resume continues an interrupted training, and gives the same result as an uninterrupted one.
    """
    if trainer is None:
        if output is not None:
            raise click.UsageError("-o needs the name of a trainer")
        from mcm_compiler.cli import listing

        listing.show_registry("trainer", "trainers", output_format)
        return
    from mcm_compiler.contracts.training import Trainer, trained_by
    from mcm_compiler.processes.staging import no_empty_folders
    from mcm_compiler.registry import TRAINERS
    from mcm_compiler.text import spec_text

    stripped = ((name.strip(), value) for name, value in settings)
    spec = spec_text.parse_one(trainer)
    spec = spec_text.Spec(spec.name, (*spec.options, *old.items(), *stripped))
    made: Trainer = TRAINERS.made(spec)
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    if tensorboard is not None and tensorboard.resolve().is_relative_to(output.resolve()):
        # Files there follow from the options and the seed alone; event files have times.
        raise click.BadParameter(
            "the folder of the training holds no other files; name another",
            param_hint="'--tensorboard'",
        )
    with no_empty_folders(output), training_progress(tensorboard) as tell:
        found = trained_by(spec.name, made, TrainingRequest(output, **options), tell)
    _show(found, output_format)
    show_diagnostics(
        old_spelling(f"--{name.replace('_', '-')}", f"--set {name}={value}")
        for name, value in old.items()
    )


def _show(found: TrainingResult, output_format: str) -> None:
    policy, left_out = str(found.checkpoint), list(found.left_out)
    if output_format == "json":
        facts = {"policy": policy, "samples": found.samples}
        show_json({**facts, "scores": found.scores, "left_out": left_out})
        return
    rows = [["policy", policy], ["samples", f"{found.samples:,}"]]
    rows += [[name, f"{score:.4f}"] for name, score in found.scores.items()]
    rows += [["left out", model] for model in left_out]
    show_table(rows)
    if found.meaning:
        click.echo(found.meaning)


Tell = Callable[["TrainingProgress"], None]

BAR_CELLS = 24
"""Of a full bar on a terminal."""

LINES_PER_PHASE = 20
"""Lines of progress where stderr is no terminal."""

LEAST_S = 0.5
"""Seconds of a phase before which a rate says nothing."""


@dataclass
class Rates:
    """Rates of phases since each was first heard of, and what is left at that rate.

    Attributes:
        clock: seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _began: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])

    def text(self, at: TrainingProgress) -> str:
        """Such as `35.2 samples/s, 4:05 left`; empty where it is too early to say."""
        now = self.clock()
        began_s, began = self._began.setdefault(at.phase, (now, at.done))
        passed_s, done = now - began_s, at.done - began
        if not at.unit or passed_s < LEAST_S or done <= 0:
            return ""
        rate = done / passed_s
        # One a minute is more telling than 0.02 a second.
        shown = f"{rate:,.1f} {at.unit}/s" if rate >= 0.1 else f"{rate * 60:,.1f} {at.unit}/min"
        left = at.total - at.done
        return f"{shown}, {clock_text(left / rate)} left" if left > 0 else shown


def clock_text(seconds: float) -> str:
    """Such as `4:05` or `1:04:05`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def training_progress(tensorboard: Path | None) -> Generator[Tell]:
    """Progress on stderr, a line that is written over on a terminal; and curves in `tensorboard`.

    Raises:
        CompileError: MCM-L012 without the library that writes them, MCM-A002 if the folder cannot
            be written.
    """
    with _curves(tensorboard) as draw, _shown() as show:

        def tell(at: TrainingProgress) -> None:
            show(at)
            draw(at)

        yield tell


@contextmanager
def _shown() -> Generator[Tell]:
    rates = Rates()
    if not sys.stderr.isatty():
        yield _lines(rates)
        return

    with status_line() as say:

        def tell(at: TrainingProgress) -> None:
            counts = f"{at.done:,}/{at.total:,}"
            told = " ".join(filter(None, (counts, rates.text(at), printable(at.note))))
            # Narrow terminals keep the numbers rather than the bar.
            room = shutil.get_terminal_size().columns - len(at.phase) - len(told) - 3
            say(" ".join(filter(None, (at.phase, _bar(at) if room >= BAR_CELLS + 2 else "", told))))

        yield tell


def _bar(at: TrainingProgress) -> str:
    full = BAR_CELLS * min(at.done, at.total) // max(at.total, 1)
    return f"[{'#' * full}{'.' * (BAR_CELLS - full)}]"


def _lines(rates: Rates) -> Tell:
    told: dict[str, int] = {}

    def tell(at: TrainingProgress) -> None:
        rate = rates.text(at)
        part = at.done * LINES_PER_PHASE // max(at.total, 1)
        if told.get(at.phase) != part or at.done == at.total:
            told[at.phase] = part
            note = ", ".join(filter(None, (rate, printable(at.note))))
            click.echo(f"{at.phase} {at.done}/{at.total}{f': {note}' if note else ''}", err=True)

    return tell


@contextmanager
def _curves(folder: Path | None) -> Generator[Tell]:
    """Writes the figures of each step as scalars, by phase and name."""
    if folder is None:
        yield lambda _at: None
        return
    writer = _writer(folder)

    def tell(at: TrainingProgress) -> None:
        for name, value in at.figures.items():
            writer.add_scalar(f"{at.phase}/{name}", value, at.done)

    try:
        yield tell
    finally:
        writer.close()


def _writer(folder: Path) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise CompileError.of(
            "MCM-L012",
            f"curves for TensorBoard need tensorboardX, which cannot be imported: {error}",
            at="--tensorboard",
            hint="pip install 'mcm-compiler[tensorboard]', or leave --tensorboard out",
        ) from error
    from mcm_compiler.processes.staging import cannot_write

    try:
        return SummaryWriter(str(folder))
    except OSError as error:
        raise cannot_write(error, folder) from error
