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
        "patterns", "Input", "Build only configurations whose name, model or target matches; "
        "* also matches /. Repeatable.", (), metavar="PATTERN",
    ),
    over: dict[str, Any] = fields_of(CompileOptions),
    jobs: int | None = asked(
        "whole", "", "Configurations built in parallel.", low=1, shown="the number of cores"
    ),
    scheduler: str | None = SCHEDULER,
    no_cache: bool = asked("flag", "", "Neither read nor write the cache."),
    baseline: Path | None = asked(
        "path", "Verification", "Output folder of an earlier build to compare with.",
        shown="the accepted baseline",
    ),
    accept: bool = asked(
        "flag", "Verification", "Accept the figures of this build as the new baseline.",
    ),
    folders: bool = asked(
        "flag", "", "Print the folders that a build would write; build nothing."
    ),
    strict: bool = asked(
        "flag", "Verification", "Exit with 3 if anything was not verified or not proven.",
    ),
    html: bool | None = asked(
        "switch", "", "Write a page per configuration, and index.html with links to them.",
        shown="'html' of the project file",
    ),
    junit: Path | None = JUNIT,
    sarif: Path | None = asked("path", "", "Also write a SARIF 2.1.0 file."),
    summary: Path | None = asked("path", "", "Also write a summary in Markdown."),
    output_format: str = FORMAT,
    *,
    plugin: tuple[Path, ...],
) -> int:  # fmt: skip
    """Compile the models that PROJECT names, check them, and compare them with the baseline.

    PROJECT is a project file, or a folder with mcmc.toml [default: .]. Each model is compiled in
    each of its profiles for each of its targets; unchanged configurations come from the cache. The
    figures of the first build are the baseline until --accept replaces them.

    Compile options given here override those of the project file, in all configurations; the
    report states the source of each.
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
