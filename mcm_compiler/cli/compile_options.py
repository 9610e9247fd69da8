"""The options of a compile, shared by `mcmc compile` and `mcmc opt`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from mcm_compiler.cli.completed_names import complete_files, names_of
from mcm_compiler.cli.field_options import click_option, grouped_option, options_given
from mcm_compiler.cli.parameters import load_plugins, plugin_option

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.options import CompileOptions
    from mcm_compiler.pipeline.passes import Pass

F = TypeVar("F", bound=Callable[..., Any])

ALL_PASSES = "all"

_PLAIN: tuple[Callable[[Any], Any], ...] = (
    grouped_option(
        "Target", "--target", default="mcm36", show_default=True, help="Name, or a TOML file.",
        shell_complete=names_of("TARGETS", files=True),
    ),
    grouped_option(
        "Search", "--plan", default=None, metavar="FILE", shell_complete=complete_files,
        help="Divide ops as a plan of mcmc parallelize says, before anything else.",
    ),
    grouped_option(
        "Search", "--planner", default=None, metavar="NAME{...}",
        shell_complete=names_of("PLANNERS"),
        help="The same with a plan that this planner makes now.",
    ),
)  # fmt: skip
"""Options that are no fields of `CompileOptions`."""


def compile_options(function: F, record: type[CompileOptions] | None = None) -> F:
    """Adds the options; the verb gets them as one parameter `options: CompileOptions`.

    `target` and `print_after` stay parameters of their own. Plug-ins are loaded before the verb
    runs.

    Args:
        function: the verb.
        record: what the options are fields of; `CompileOptions` by default.
    """
    from mcm_compiler.options import CompileOptions
    from mcm_compiler.text.option_fields import options_of

    made = record or CompileOptions
    options = options_of(made)

    @functools.wraps(function)
    def verb(
        *, plugin: tuple[Path, ...], plan: str | None, planner: str | None, **given: Any
    ) -> Any:
        if planner is not None:
            from mcm_compiler.processes.one_thread import use_one_thread

            # Before NumPy is imported: planners that learn do so reproducibly.
            use_one_thread()
        from mcm_compiler.options import DEFAULT_PIPELINE
        from mcm_compiler.text import spec_text

        asked = options_given(options, given)
        if "repair_assignment" in asked and "assignment" not in asked:
            raise click.UsageError("--repair-assignment needs --assignment")
        if "assignment" in asked and "partitioner" in asked:
            raise click.UsageError("--assignment takes no --partitioner")
        _check_objective(*(asked.get(n) for n in ("objective", "max_latency_s", "throughput")))
        if plan is not None and planner is not None:
            raise click.UsageError("--plan takes no --planner")
        if (given_plan := plan or planner) is not None:
            option = "file" if plan is not None else "planner"
            first = f"apply_plan{{{option}={spec_text.print_value(given_plan)}}}"
            asked["passes"] = f"{first},{asked.get('passes', DEFAULT_PIPELINE)}"
        load_plugins(plugin)
        return function(options=made(**asked), **given)

    command: Any = plugin_option(verb)
    ordered = [click_option(one) for one in options]
    ordered[1:1] = _PLAIN[1:]
    # Decorators apply from the last to the first.
    for option in reversed([_PLAIN[0], *ordered]):
        command = option(command)
    return cast("F", command)


def _check_objective(
    objective: str | None, max_latency_s: float | None, throughput: float | None
) -> None:
    """Refuses options that contradict each other, by their own names.

    Raises:
        click.UsageError: if they do.
    """
    if max_latency_s is not None and objective not in (None, "period"):
        raise click.UsageError(
            f"--max-latency is for the most throughput within it, and takes no --objective "
            f"{objective}"
        )
    if objective == "chips" and throughput is None:
        raise click.UsageError("--objective chips needs --throughput, which they are to reach")
    if throughput is not None and objective != "chips":
        raise click.UsageError("--throughput needs --objective chips")


def printer_after(
    wanted: tuple[str, ...], options: CompileOptions
) -> Callable[[Pass, ir.Model], None] | None:
    """What `--print-after` asks for: prints the model to stderr after the wanted passes.

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
    from mcm_compiler.text.units import printable

    return "\n".join(map(printable, text.split("\n")))


def show_timings(timings: tuple[tuple[str, float], ...]) -> None:
    """Prints seconds by stage to stderr."""
    width = max((len(name) for name, _ in timings), default=0)
    for name, seconds in (*timings, ("total", sum(seconds for _, seconds in timings))):
        click.echo(f"{name:<{max(width, 5)}}  {seconds:8.3f} s", err=True)


@contextmanager
def progress_line(quiet: bool = False) -> Generator[Callable[[str], None] | None]:
    """A status line on stderr while the block runs, if stderr is a terminal; gives None else.

    Args:
        quiet: no status line, because the verb itself prints to stderr meanwhile.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from mcm_compiler.cli.show import status_line

    with status_line() as say:
        say("starting")
        yield say
