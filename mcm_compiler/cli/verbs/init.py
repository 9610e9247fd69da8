"""`mcmc init`: a first project file from a folder of models."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path

import click

from mcm_compiler.cli.show import progress_line, show_json
from mcm_compiler.cli.verb import FILE, FORCE, FORMAT, argument, verb
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import count_text, printable


@verb(("init", "init models --target mcm36 --target mcm16"), plugins=False)
def command(
    folder: Path = argument(type=FILE, default="."),
    targets: tuple[str, ...] = asked(
        "patterns", "", "Target, listed by mcmc targets, or a TOML file. Repeatable.", ("mcm36",),
        flag="--target", shown="mcm36",
    ),
    jobs: int = asked("whole", "", "Number of models read in parallel.", 1, low=1),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> None:  # fmt: skip
    """Write a first project file for a folder of models.

    FOLDER/mcmc.toml lists all models in FOLDER with sizes for their inputs. Sizes come from test
    data next to a model, from its weights, and from runs in onnxruntime; a comment states the
    source of each. All others are guessed from their names: review those, then run `mcmc build`.
    """
    from mcm_compiler.ci.processes import work_on_all
    from mcm_compiler.cli.many_models import each_shown
    from mcm_compiler.cli.output_files import refuse_existing
    from mcm_compiler.drafting.draft import draft_text, list_folder, lost
    from mcm_compiler.drafting.model_draft import draft_model
    from mcm_compiler.processes.staging import write_whole
    from mcm_compiler.project.records import FILE_NAME

    listing = list_folder(folder)
    named = [_relative(target, folder) for target in targets]
    path = folder / FILE_NAME
    refuse_existing(path, force)
    with progress_line() as progress:
        work = partial(draft_model, folder)
        found = work_on_all(listing.models, work, lost, jobs, progress=progress)
        drafts = each_shown(found, lambda draft: (draft.model, [], draft.faults))
    text = draft_text(path, named, drafts, listing)
    write_whole(path, text.encode())
    unreadable = sum(bool(draft.faults) for draft in drafts)
    guesses = sum(draft.guesses for draft in drafts)
    if output_format == "json":
        show_json(
            {
                "file": str(path),
                "models": len(drafts) - unreadable,
                "guesses": guesses,
                "unreadable": [
                    {"model": draft.model, "diagnostics": [d.to_dict() for d in draft.faults]}
                    for draft in drafts
                    if draft.faults
                ],
                "skipped": [{"model": name, "reason": reason} for name, reason in listing.skipped],
            }
        )
        return
    line = f"wrote {printable(str(path))}: {count_text(len(drafts) - unreadable, 'model')}"
    if guesses:
        line += f", {count_text(guesses, 'size')} guessed"
    if unranked := sum(len(draft.unranked) for draft in drafts):
        line += f", {count_text(unranked, 'input')} without a shape"
    if unreadable:
        line += f", {count_text(unreadable, 'model')} left out that cannot be read"
    click.echo(line)
    command = "mcmc build" if folder == Path() else f"mcmc build {shlex.quote(str(folder))}"
    click.echo(f"next: {printable(command)}", err=True)


def _relative(target: str, folder: Path) -> str:
    """A target as the project file names it, whose paths are relative to its own folder.

    Raises:
        CompileError: as `load_target`, for one that does not exist or is at fault.
    """
    from mcm_compiler.components.target_loading import load_target

    load_target(target)
    if not target.endswith(".toml") and len(Path(target).parts) == 1:
        return target
    return Path(os.path.relpath(target, folder)).as_posix()
