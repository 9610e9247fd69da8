"""`mcmc build`: all models of a project, for all its targets, in one command."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import FILE, format_option, plugin_option


@click.command(cls=Verb)
@click.argument("project", type=FILE, default=Path("."))
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Build the cells whose name, model or target matches; * matches / too. Repeatable.",
)
@click.option("--jobs", type=click.IntRange(1), default=None,
              help="Cells that are worked on at once (as many as cores).")  # fmt: skip
@click.option("--no-cache", is_flag=True, help="Compile everything, and keep nothing.")
@click.option("--baseline", type=FILE, default=None,
              help="Output folder of an earlier build to compare with, instead of the accepted "
              "baseline.")  # fmt: skip
@click.option("--accept", is_flag=True,
              help="Make the figures of this build the accepted baseline.")  # fmt: skip
@click.option("--folders", is_flag=True,
              help="Print the folders that a build writes, and build nothing.")  # fmt: skip
@click.option("--strict", is_flag=True,
              help="Exit with 3 where something was not verified or not proven.")  # fmt: skip
@click.option("--html/--no-html", default=None,
              help="Write a page of each cell beside its folder, and index.html with links to "
              "them (as 'html' in the project file says).")  # fmt: skip
@click.option("--junit", type=FILE, default=None, help="Write a JUnit XML file, too.")
@click.option("--sarif", type=FILE, default=None, help="Write a SARIF 2.1.0 file, too.")
@click.option("--summary", type=FILE, default=None, help="Write a summary in Markdown, too.")
@plugin_option
@format_option()
@click.pass_context
def command(
    ctx: click.Context,
    project: Path,
    only: tuple[str, ...],
    jobs: int | None,
    no_cache: bool,
    baseline: Path | None,
    accept: bool,
    folders: bool,
    strict: bool,
    html: bool | None,
    junit: Path | None,
    sarif: Path | None,
    summary: Path | None,
    plugin: tuple[Path, ...],
    output_format: str,
) -> None:
    """Compile the models that PROJECT names, check them, and compare them with the baseline.

    PROJECT is a project file, or a folder with mcmc.toml [default: .]. Each model is compiled in
    each of its profiles for each of its targets. What has not changed comes from the cache. The
    figures of a cell's first build are its baseline until --accept replaces them.
    """
    from mcm_compiler.cli.output_files import refuse_same_file
    from mcm_compiler.cli.project_build import BuildReports, run_build, show_folders
    from mcm_compiler.processes.side_by_side import usable_cores
    from mcm_compiler.project.build import BuildOptions
    from mcm_compiler.project.cells import cells_of
    from mcm_compiler.project.cells import only as only_those
    from mcm_compiler.project.reader import read_project
    from mcm_compiler.project.records import FILE_NAME
    from mcm_compiler.project.targets import TargetNames

    if accept and baseline is not None:
        raise click.UsageError(
            "--accept replaces the accepted baseline, which --baseline leaves out"
        )
    refuse_same_file({"--junit": junit, "--sarif": sarif, "--summary": summary})
    project = project / FILE_NAME if project.is_dir() else project
    read = read_project(project)
    if folders:
        show_folders(read, output_format)
        return
    given = tuple(path.absolute() for path in plugin)
    plugins = (*(read.root / path for path in read.plugins), *given)
    every = cells_of(read, TargetNames(plugins))
    cells = only_those(every, only)
    paged = read.html if html is None else html
    options = BuildOptions(
        jobs or usable_cores(),
        not no_cache,
        _absolute(baseline),
        strict,
        plugins,
        paged,
        accept,
        not only,
    )
    reports = BuildReports(
        project,
        _absolute(junit),
        _absolute(sarif),
        _absolute(summary),
        output_format,
        every if paged else (),
    )
    with contextlib.chdir(read.root):
        code = run_build(read, cells, options, reports)
    if code:
        ctx.exit(code)


def _absolute(path: Path | None) -> Path | None:
    """A path of the command line, before the working folder becomes that of the project."""
    return path.absolute() if path is not None else None
