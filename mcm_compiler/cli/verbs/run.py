"""`mcmc run`: the chips of a compiled folder on the user's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcm_compiler.cli.failures import Verb
from mcm_compiler.cli.parameters import FILE, force_option, format_option
from mcm_compiler.cli.show import show_json, show_table


@click.command(cls=Verb)
@click.argument("folder", type=FILE)
@click.option(
    "-i", "--input", "input_path", type=FILE, required=True, help="One array per model input."
)
@click.option("-o", "--output", type=FILE, default=None, help="The .npz file for the outputs.")
@click.option(
    "--steps", type=click.IntRange(1, 4096), default=1, show_default=True,
    help="Number of decode steps of one sequence, each on the states of the step before; an "
    "array with a leading axis of this length has one entry per step.",
)  # fmt: skip
@force_option
@format_option()
def command(
    folder: Path, input_path: Path, output: Path | None, steps: int, force: bool, output_format: str
) -> None:
    """Run the chips of FOLDER as a chain in onnxruntime, on arrays from an .npz file."""
    from mcm_compiler.checking.entry.run_folder import run_folder
    from mcm_compiler.cli.npz_files import read_npz, write_npz
    from mcm_compiler.cli.output_files import refuse_existing

    if output is not None:
        refuse_existing(output, force)
    outputs = run_folder(folder, read_npz(input_path), steps)
    if output is not None:
        write_npz(output, outputs)
    rows = [_described(name, value) for name, value in outputs.items()]
    if output_format == "json":
        show_json({"outputs": rows})
        return
    show_table([(row["name"], row["type"], str(row["shape"])) for row in rows])


def _described(name: str, value: Any) -> dict[str, Any]:
    shape = getattr(value, "shape", None)
    if shape is None:
        return {"name": name, "type": type(value).__name__, "shape": None}
    kind = "string" if value.dtype.kind in "OUS" else value.dtype.name
    return {"name": name, "type": kind, "shape": list(shape)}
