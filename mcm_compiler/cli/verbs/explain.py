"""`mcmc explain`: what a diagnostic code means, and what to do."""

from __future__ import annotations

import dataclasses
import difflib

import click

from mcm_compiler.cli.completed_names import complete_codes
from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import format_option
from mcm_compiler.cli.show import show_json, show_table


@click.command(cls=Verb)
@click.argument("code", required=False, shell_complete=complete_codes)
@format_option()
def command(code: str | None, output_format: str) -> None:
    """Explain CODE, such as MCM-P003; without CODE, list all codes."""
    from mcm_compiler.diagnostics import CompileError, quote
    from mcm_compiler.diagnostics.catalog import catalog

    entries = catalog()
    if code is None:
        if output_format == "json":
            show_json({"codes": [dataclasses.asdict(entry) for entry in entries.values()]})
        else:
            show_table([(entry.code, entry.title) for entry in entries.values()])
        return
    entry = entries.get(code.upper())
    if entry is None:
        family = [known for known in entries if known[:5] == code[:5].upper()]
        near = difflib.get_close_matches(code.upper(), family or entries, n=3, cutoff=0.7)
        raise CompileError.of(
            "MCM-U023",
            f"no diagnostic has the code {quote(code)}",
            hint=f"did you mean {', '.join(near)}?"
            if near
            else "mcmc explain lists all codes; a plug-in documents its own",
        )
    if output_format == "json":
        show_json(dataclasses.asdict(entry))
    else:
        click.echo(f"{entry.code}: {entry.title}\n\n{entry.explanation.strip()}")
        click.echo(f"\nExample: {entry.example}\n\nWhat to do: {entry.remedy}")
