"""`mcmc train`: what the compiler learns, trained on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from mcm_compiler.cli.completed_names import names_of
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.field_options import field_options, options_given
from mcm_compiler.cli.parameters import (
    FILE,
    format_option,
    load_plugins,
    old_spelling,
    parse_setting,
    plugin_option,
)
from mcm_compiler.cli.training_progress import training_progress
from mcm_compiler.contracts.requests import TrainingRequest
from mcm_compiler.text.option_fields import options_of

if TYPE_CHECKING:
    from mcm_compiler.contracts.training import Trainer, TrainingResult

OLD_OPTIONS = (
    "target", "data_set", "recipe", "samples", "checkpoints", "workers", "scheduler",
)  # fmt: skip
"""Options of trainers that were options of the command line; one release more."""


def _old_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name in OLD_OPTIONS:
        function = click.option(_flag(name), name, default=None, hidden=True)(function)
    return function


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


EXAMPLES = """\b
Examples:
  mcmc train
  mcmc train policy -o policy --set samples=400
  mcmc train policy -o policy --set samples=400 --resume
"""


@click.command(cls=Verb, epilog=EXAMPLES)
@click.argument("trainer", metavar="[NAME]", required=False, shell_complete=names_of("TRAINERS"))
@click.option(
    "-o", "--output", type=FILE, default=None, help="Folder of the training; holds the policy."
)
@click.option(
    "--set",
    "settings",
    type=parse_setting,
    multiple=True,
    metavar="OPTION=VALUE",
    help="An option of the trainer. Repeatable.",
)
@field_options(TrainingRequest)
@click.option(
    "--tensorboard",
    type=FILE,
    default=None,
    help="Folder for event files with the training's curves, for TensorBoard.",
)
@_old_options
@plugin_option
@format_option()
def command(
    trainer: str | None,
    output: Path | None,
    settings: tuple[tuple[str, str], ...],
    tensorboard: Path | None,
    plugin: tuple[Path, ...],
    output_format: str,
    **further: Any,
) -> None:
    """Train NAME, or NAME{option=value,...}; without a name, list what can be trained.

    What is trained comes with the compiler; training is for other packages, models or recipes. A
    training that was stopped goes on with --resume, and ends as if it had never been.
    """
    from mcm_compiler.processes.one_thread import use_one_thread

    # Before NumPy is imported.
    use_one_thread()
    load_plugins(plugin)
    if trainer is None:
        if output is not None:
            raise click.UsageError("-o needs the name of a trainer")
        _list(output_format)
        return
    from mcm_compiler.contracts.training import trained_by
    from mcm_compiler.processes.staging import no_empty_folders
    from mcm_compiler.text import spec_text

    asked = options_given(options_of(TrainingRequest), further)
    given = {name: value for name, value in further.items() if value is not None}
    made = _trainer(trainer, (*given.items(), *settings))
    name = spec_text.parse_one(trainer).name
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    if tensorboard is not None and tensorboard.resolve().is_relative_to(output.resolve()):
        # Files there follow from the options and the seed alone; event files have times.
        raise click.BadParameter(
            "the folder of the training holds no other files; name another",
            param_hint="'--tensorboard'",
        )
    with no_empty_folders(output), training_progress(tensorboard) as tell:
        found = trained_by(name, made, TrainingRequest(output, **asked), tell)
    _show(found, output_format)
    show_diagnostics(
        old_spelling(_flag(name), f"--set {name}={value}") for name, value in given.items()
    )


def _trainer(text: str, settings: tuple[tuple[str, str], ...]) -> Trainer:
    """The trainer of a text such as `policy{samples=400}`, with further options."""
    from mcm_compiler.registry import TRAINERS
    from mcm_compiler.text import spec_text

    spec = spec_text.parse_one(text)
    spec = spec_text.Spec(spec.name, (*spec.options, *settings))
    return cast("Trainer", TRAINERS.made(spec))


def _show(found: TrainingResult, output_format: str) -> None:
    from mcm_compiler.cli.show import show_json, show_table

    if output_format == "json":
        show_json(
            {
                "policy": str(found.checkpoint),
                "samples": found.samples,
                "scores": found.scores,
                "left_out": list(found.left_out),
            }
        )
        return
    rows = [["policy", str(found.checkpoint)], ["samples", f"{found.samples:,}"]]
    rows += [[name, f"{score:.4f}"] for name, score in found.scores.items()]
    rows += [["left out", model] for model in found.left_out]
    show_table(rows)
    if found.meaning:
        click.echo(found.meaning)


def _list(output_format: str) -> None:
    from mcm_compiler.cli.listing import component_rows, option_rows, show_components
    from mcm_compiler.registry import TRAINERS

    def describe(_name: str, component: Any) -> dict[str, Any]:
        return {"summary": component.summary, "options": option_rows(component)}

    show_components("trainers", component_rows(TRAINERS, describe), output_format)
