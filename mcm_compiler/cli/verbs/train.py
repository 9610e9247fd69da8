"""`mcmc train`: what the compiler learns, trained on this machine or on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.failures import old_spelling, show_diagnostics
from mcm_compiler.cli.training_progress import training_progress
from mcm_compiler.cli.verb import FORMAT, Several, argument, fields_of, verb
from mcm_compiler.contracts.requests import TrainingRequest
from mcm_compiler.text.option_fields import asked, option_of

if TYPE_CHECKING:
    from mcm_compiler.contracts.training import TrainingResult

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
        "path", "", "Folder of the training; holds the policy.", short="-o"
    ),
    settings: tuple[tuple[str, str], ...] = asked(
        "settings", "", "An option of the trainer. Repeatable.", (),
        flag="--set", metavar="OPTION=VALUE",
    ),
    options: dict[str, Any] = fields_of(TrainingRequest),
    tensorboard: Path | None = asked(
        "path", "", "Folder for event files with the training's curves, for TensorBoard."
    ),
    old: dict[str, str] = _OLD,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Train NAME, or NAME{option=value,...}; without a name, list what can be trained.

    What is trained comes with the compiler; training is for other packages, models or recipes. A
    training that was stopped goes on with --resume, and ends as if it had never been.
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
    from mcm_compiler.cli.show import show_json, show_table

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
