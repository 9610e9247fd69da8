"""`mcmc build`: all models of a project, for all its targets, in one command."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.verb import FILE, FORMAT, JUNIT, SCHEDULER, argument, fields_of, verb
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.option_fields import asked, options_of

if TYPE_CHECKING:
    from mcm_compiler.project.records import Settings


@verb(
    (
        "build",
        "build models --only '*.mcm36' --jobs 4",
        "build --accept --junit build.xml --sarif build.sarif",
    ),
    late=True,
)
def command(
    project: Path = argument(type=FILE, default=Path()),
    only: tuple[str, ...] = asked(
        "patterns", "Input", "Build the cells whose name, model or target matches; * matches / "
        "too. Repeatable.", (), metavar="PATTERN",
    ),
    over: dict[str, Any] = fields_of(CompileOptions),
    jobs: int | None = asked(
        "whole", "", "Cells that are worked on at once (as many as cores).", low=1
    ),
    scheduler: str | None = SCHEDULER,
    no_cache: bool = asked("flag", "", "Compile everything, and keep nothing."),
    baseline: Path | None = asked(
        "path", "Verification", "Output folder of an earlier build to compare with, instead of the "
        "accepted baseline.",
    ),
    accept: bool = asked(
        "flag", "Verification", "Make the figures of this build the accepted baseline.",
    ),
    folders: bool = asked(
        "flag", "", "Print the folders that a build writes, and build nothing."
    ),
    strict: bool = asked(
        "flag", "Verification", "Exit with 3 where something was not verified or not proven.",
    ),
    html: bool | None = asked(
        "switch", "", "Write a page of each cell beside its folder, and index.html with links to "
        "them (as 'html' in the project file says).",
    ),
    junit: Path | None = JUNIT,
    sarif: Path | None = asked("path", "", "Write a SARIF 2.1.0 file, too."),
    summary: Path | None = asked("path", "", "Write a summary in Markdown, too."),
    output_format: str = FORMAT,
    *,
    plugin: tuple[Path, ...],
) -> int:  # fmt: skip
    """Compile the models that PROJECT names, check them, and compare them with the baseline.

    PROJECT is a project file, or a folder with mcmc.toml [default: .]. Each model is compiled in
    each of its profiles for each of its targets. What has not changed comes from the cache. The
    figures of a cell's first build are its baseline until --accept replaces them.

    Options of a compile win over those of the project file, in all cells; the report has their
    sources.
    """
    from mcm_compiler.cli.output_files import refuse_same_file
    from mcm_compiler.cli.project_build import BuildReports, run_build, show_folders
    from mcm_compiler.processes.side_by_side import usable_cores
    from mcm_compiler.project.build import BuildOptions
    from mcm_compiler.project.built import planned, read_build
    from mcm_compiler.project.records import FILE_NAME

    if accept and baseline is not None:
        raise click.UsageError(
            "--accept replaces the accepted baseline, which --baseline leaves out"
        )
    files = {"--junit": junit, "--sarif": sarif, "--summary": summary}
    refuse_same_file(files)
    project = project / FILE_NAME if project.is_dir() else project
    read = read_build(project)
    read = dataclasses.replace(read, over=_settings(over, read.root))
    if folders:
        show_folders(read, output_format)
        return 0
    plan = planned(read, only, plugin)
    paged = read.html if html is None else html
    options = BuildOptions(
        jobs or usable_cores(),
        not no_cache,
        None if baseline is None else baseline.absolute(),
        strict,
        plan.plugins,
        paged,
        accept,
        not only,
        scheduler,
    )
    reports = BuildReports(
        project,
        {option: path.absolute() for option, path in files.items() if path is not None},
        output_format,
        plan.every if paged else (),
    )
    with contextlib.chdir(read.root):
        return run_build(plan, options, reports)


def _settings(given: dict[str, Any], root: Path) -> Settings:
    """Options of the command line as settings of a project, whose paths are relative to `root`."""
    from mcm_compiler.project.records import Settings

    files = {one.name for one in options_of(CompileOptions) if one.form == "file"}
    for name in files & given.keys():
        given[name] = os.path.relpath(given[name], root)
    level = given.pop("level", None)
    if str(level).endswith(".toml"):
        level = os.path.relpath(str(level), root)
    return Settings(
        levels=() if level is None else (level,),
        dims=given.pop("dims", {}),
        shapes=given.pop("shapes", {}),
        state=given.pop("state", None),
        inputs=given.pop("input", None),
        options=given,
    )
