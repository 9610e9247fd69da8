"""`mcmc train`: what the compiler learns, trained on this machine or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import FILE, SEED, format_option
from mcm_compiler.report.printable import printable

if TYPE_CHECKING:
    from mcm_compiler.training import TrainingProgress

LINES_PER_PHASE = 20
"""Lines of progress where stderr is no terminal."""


class _VerbWithParts(Verb, click.Group):
    """A verb that does something by itself, and more with a word behind it."""


@click.group(cls=_VerbWithParts, invoke_without_command=True)
@format_option()
@click.pass_context
def command(ctx: click.Context, output_format: str) -> None:
    """List what can be trained, or train it.

    What is trained comes with the compiler; training is for other packages, models or recipes.
    """
    if ctx.invoked_subcommand is None:
        _list(output_format)
    elif ctx.get_parameter_source("output_format") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--format belongs behind '{ctx.invoked_subcommand}'.", ctx)


@command.command(cls=Verb, short_help="Train the partitioning policy.")
@click.option(
    "-o", "--output", type=FILE, required=True, help="Folder of the training; holds the policy."
)
@click.option("--target", default="mcm36", show_default=True, help="Package to train for.")
@click.option(
    "--data-set",
    default="mcm87",
    show_default=True,
    help="mcm87: models of the zoo. Or a JSON file with the lists train and validation.",
)
@click.option("--recipe", default="default", show_default=True, help="How it learns.")
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=20_000,
    show_default=True,
    help="Partitions to learn from, rounded down to whole iterations.",
)
@click.option(
    "--checkpoints",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Policies to keep on the way, and to choose among.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of everything random.")
@click.option(
    "--workers",
    type=click.IntRange(0, 1024),
    default=2,
    show_default=True,
    help="Processes that score checkpoints; 0 for none but this one.",
)
@click.option(
    "--scheduler",
    default=None,
    metavar="URL",
    help="Dask scheduler whose workers do that instead, such as tcp://10.0.0.1:8786.",
)
@click.option("--resume", is_flag=True, help="Go on with the training that the folder holds.")
@format_option()
def policy(
    output: Path,
    target: str,
    data_set: str,
    recipe: str,
    samples: int,
    checkpoints: int,
    seed: int,
    workers: int,
    scheduler: str | None,
    resume: bool,
    output_format: str,
) -> None:
    """Train the policy behind the strategies rl-zeroshot and rl-finetune.

    Learns on the training models of the data set, scores checkpoints on its validation models, and
    writes the best as policy.safetensors. A training that was stopped goes on with --resume, and
    ends as if it had never been.
    """
    from mcm_compiler.one_thread import use_one_thread

    # Before NumPy is imported.
    use_one_thread()
    from mcm_compiler.cli.show import show_json, show_table
    from mcm_compiler.registry import TRAINERS
    from mcm_compiler.training import TrainingRequest

    request = TrainingRequest(
        output, target, data_set, recipe, samples, checkpoints, seed, workers, scheduler, resume
    )
    with _progress() as tell:
        found = TRAINERS.get("policy")().train(request, tell)
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
    click.echo(
        "scores: throughput over the greedy heuristic's, fast cost model, geometric mean over the "
        "validation models of the best so far on average over 200 samples"
    )


@command.command(cls=Verb, short_help="Train the policy that cuts pipelines.")
@click.option(
    "-o", "--output", type=FILE, required=True, help="Folder of the training; holds the policy."
)
@click.option("--recipe", default="default", show_default=True, help="How it learns.")
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=20_000,
    show_default=True,
    help="Pipelines to learn from.",
)
@click.option(
    "--checkpoints",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Policies to keep on the way, and to choose among.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of everything random.")
@format_option()
def pipeline(
    output: Path, recipe: str, samples: int, checkpoints: int, seed: int, output_format: str
) -> None:
    """Train the policy that cuts pipelines of models that it has not seen.

    Learns on made-up models and clusters, and is chosen by others of them.
    """
    from mcm_compiler.one_thread import use_one_thread

    # Before NumPy is imported.
    use_one_thread()
    from mcm_compiler.cli.show import show_json, show_table
    from mcm_compiler.registry import TRAINERS
    from mcm_compiler.training import TrainingRequest

    request = TrainingRequest(
        output, recipe=recipe, samples=samples, checkpoints=checkpoints, seed=seed
    )
    with _progress() as tell:
        found = TRAINERS.get("pipeline")().train(request, tell)
    if output_format == "json":
        show_json(
            {
                "policy": str(found.checkpoint),
                "samples": found.samples,
                "scores": found.scores,
            }
        )
        return
    rows = [["policy", str(found.checkpoint)], ["samples", f"{found.samples:,}"]]
    show_table(rows + [[name, f"{score:.4f}"] for name, score in found.scores.items()])


def _list(output_format: str) -> None:
    from mcm_compiler.cli.listing import component_rows, show_components
    from mcm_compiler.registry import TRAINERS

    def describe(_name: str, component: Any) -> dict[str, Any]:
        return {"summary": component.summary}

    rows = component_rows(TRAINERS, describe)
    show_components("trainers", rows, output_format, options=False)


@contextmanager
def _progress() -> Generator[Callable[[TrainingProgress], None]]:
    """Bars on a terminal, some lines elsewhere; on stderr."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bars:
        ids: dict[str, TaskID] = {}

        def tell(at: TrainingProgress) -> None:
            if at.phase not in ids:
                ids[at.phase] = bars.add_task(at.phase)
            text = f"{at.phase} {printable(at.note)}".strip()
            bars.update(ids[at.phase], completed=at.done, total=at.total, description=text)

        yield tell


def _lines() -> Callable[[TrainingProgress], None]:
    told: dict[str, int] = {}

    def tell(at: TrainingProgress) -> None:
        part = at.done * LINES_PER_PHASE // max(at.total, 1)
        if told.get(at.phase) != part or at.done == at.total:
            told[at.phase] = part
            note = f": {printable(at.note)}" if at.note else ""
            click.echo(f"{at.phase} {at.done}/{at.total}{note}", err=True)

    return tell
