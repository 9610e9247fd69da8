"""The options of a compile, shared by `mcmc compile`, `mcmc opt` and `mcmc explore`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli.verb import PLUGIN, Several
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.text.option_fields import asked, option_of, options_of
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.pipeline.passes import Pass

ALL_PASSES = "all"

PRINT_AFTER = asked(
    "patterns", "", "Print the model after this pass, or after 'all'. Repeatable.", (),
    names="PASSES all", metavar="PASS",
)  # fmt: skip

_PLAIN = {
    "plan": asked(
        "file", "Search", "Plan from mcmc parallelize; its division of ops is applied first."
    ),
    "planner": asked(
        "text", "Search", "Planner whose plan is applied first, such as auto-map.",
        metavar="NAME{...}", names="PLANNERS",
    ),
}  # fmt: skip
"""Options that are no fields of `CompileOptions`."""


def compile_options(record: type[CompileOptions] = CompileOptions) -> Any:
    """A parameter that is the options, with `--plugin`.

    Args:
        record: of which options are fields.
    """
    first, *further = options_of(record)
    plain = [option_of(name, field) for name, field in _PLAIN.items()]
    options = [first, *plain, *further, option_of("plugin", PLUGIN)]
    return Several(options, lambda given: record(**_checked(given)))


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Fields of the options that are given.

    Raises:
        click.UsageError: if they contradict each other.
    """
    objective = given.get("objective", "period")
    conflicts = {
        "--repair-assignment needs --assignment": (
            "repair_assignment" in given and "assignment" not in given
        ),
        "--assignment takes no --partitioner": {"assignment", "partitioner"} <= given.keys(),
        "--max-latency is for the most throughput within it, and takes no --objective "
        f"{objective}": "max_latency_s" in given and objective != "period",
        "--objective chips needs --throughput, which they are to reach": (
            objective == "chips" and "throughput" not in given
        ),
        "--throughput needs --objective chips": "throughput" in given and objective != "chips",
        "--plan takes no --planner": {"plan", "planner"} <= given.keys(),
    }
    for message, is_so in conflicts.items():
        if is_so:
            raise click.UsageError(message)
    given.pop("plugin", None)
    plan, planner = given.pop("plan", None), given.pop("planner", None)
    if planner is not None:
        from mcm_compiler.processes.one_thread import use_one_thread

        # Before NumPy is imported: planners that learn do so reproducibly.
        use_one_thread()
    if (given_plan := plan or planner) is not None:
        from mcm_compiler.text import spec_text

        option = "file" if plan is not None else "planner"
        first = f"apply_plan{{{option}={spec_text.print_value(given_plan)}}}"
        given["passes"] = f"{first},{given.get('passes', DEFAULT_PIPELINE)}"
    return given


def printer_after(
    wanted: tuple[str, ...], options: CompileOptions
) -> Callable[[Pass, ir.Model], None] | None:
    """Printer for `--print-after`: prints the model to stderr after the wanted passes.

    Raises:
        click.BadParameter: if a wanted pass is not in the pipeline.
        CompileError: MCM-U001 if the pipeline does not parse.
    """
    if not wanted:
        return None
    from mcm_compiler.ir.rewriting.printer import print_model
    from mcm_compiler.text.spec_text import parse_list

    names = [spec.name for spec in parse_list(options.passes)]
    for name in wanted:
        if name not in (*names, ALL_PASSES):
            raise click.BadParameter(
                f"'{name}' is not in the pipeline: {', '.join(names)}", param_hint="'--print-after'"
            )

    def show(step: Pass, model: ir.Model) -> None:
        if step.name in wanted or ALL_PASSES in wanted:
            click.echo(f"// after {step}", err=True)
            click.echo(printable_lines(print_model(model)), err=True, nl=False)

    return show


def printable_lines(text: str) -> str:
    """`text` with everything but line ends escaped that does not print."""
    return "\n".join(map(printable, text.split("\n")))
