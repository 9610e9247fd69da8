"""`mcmc diff`: two output folders compared."""

from __future__ import annotations

from pathlib import Path

from mcm_compiler.cli.show import show_diagnostics, show_json, show_page, show_view, view_width
from mcm_compiler.cli.verb import FOLDER, FORCE, FORMAT, verb
from mcm_compiler.text.option_fields import asked

REGRESSION_EXIT = 1


@verb(("diff before after", "diff before after --max-regression 3% --html diff.html"))
def command(
    a: Path = FOLDER,
    b: Path = FOLDER,
    max_regression: float | None = asked(
        "percentage", "", "Exit with 1 if B's throughput is lower than A's by more than this."
    ),
    html: Path | None = asked("new file", "", "Also write the comparison as a page."),
    force: bool = FORCE,
    output_format: str = FORMAT,
) -> int | None:
    """Compare the folders A and B: what moved, what got slower, and why.

    Both were written by mcmc compile, or both by mcmc place; hashes and figures are checked. Ops
    are matched by name, and by structure where names differ.

    Exits with 0 unless --max-regression is exceeded.
    """
    from mcm_compiler.difference.compared import diff
    from mcm_compiler.difference.text import difference_view

    found = diff(a, b, max_regression=max_regression or 0.0)
    if output_format == "json":
        show_json(found.to_dict())
    else:
        show_view(difference_view(found, view_width()))
    if html is not None:
        from mcm_compiler.difference.page import difference_page

        show_page(html, difference_page(found))
    show_diagnostics(found.notes)
    if max_regression is not None and found.comparison.regressed:
        show_diagnostics(found.comparison.diagnostics(f"{b}, compared with {a}")[:1])
        return REGRESSION_EXIT
    return None
