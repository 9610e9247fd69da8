"""`mcmc diff`: two output folders held against each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcm_compiler.cli import parameters
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.show import show_json, show_view, view_width
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from mcm_compiler.difference.records import Difference

REGRESSION_EXIT = 1


@click.command(cls=Verb)
@click.argument("a", type=parameters.FILE)
@click.argument("b", type=parameters.FILE)
@click.option(
    "--max-regression",
    type=parameters.parse_percentage,
    default=None,
    metavar="PERCENT",
    help="Exit with 1 if the throughput of B is lower than that of A by more.",
)
@click.option("--html", type=parameters.FILE, default=None, help="Write a page to look at, too.")
@parameters.force_option
@parameters.plugin_option
@parameters.format_option()
@click.pass_context
def command(
    ctx: click.Context,
    a: Path,
    b: Path,
    max_regression: float | None,
    html: Path | None,
    force: bool,
    plugin: tuple[Path, ...],
    output_format: str,
) -> None:
    """Compare the folders A and B: what moved, what got slower, and why.

    Both were written by mcmc compile, or both by mcmc place; hashes and figures are checked. Ops
    are matched by name, and by structure where names differ.

    Exits with 0, however they differ, unless --max-regression asks for more.
    """
    from mcm_compiler.cli.output_files import refuse_existing
    from mcm_compiler.difference.compared import difference, read_side
    from mcm_compiler.difference.text import difference_view

    parameters.load_plugins(plugin)
    if html is not None:
        refuse_existing(html, force)
    first, second = read_side(a), read_side(b)
    allowed = 0.0 if max_regression is None else max_regression
    found = difference(first, second, allowed)
    if output_format == "json":
        show_json(found.to_dict())
    else:
        show_view(difference_view(found, view_width()))
    if html is not None:
        _write_page(html, found)
    show_diagnostics([side.note for side in (first, second) if side.note is not None])
    if max_regression is not None and found.comparison.regressed:
        show_diagnostics(found.comparison.diagnostics(f"{b}, compared with {a}")[:1])
        ctx.exit(REGRESSION_EXIT)


def _write_page(path: Path, found: Difference) -> None:
    from mcm_compiler.difference.page import difference_page
    from mcm_compiler.page.html import page_bytes
    from mcm_compiler.processes.staging import write_whole

    write_whole(path, page_bytes(difference_page(found)))
    click.echo(f"wrote {printable(str(path))}", err=True)
