"""The options of a compile, shared by `mcmc compile` and `mcmc opt`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from mcm_compiler.cli.completed_names import complete_files, complete_pipeline, names_of
from mcm_compiler.cli.parameters import (
    COST_MODEL,
    SEED,
    load_plugins,
    once_each,
    parse_dimension,
    parse_duration,
    parse_level,
    parse_pin,
    parse_rate,
    parse_shape,
    parse_states,
    plugin_option,
)

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.options import CompileOptions
    from mcm_compiler.pipeline.passes import Pass

F = TypeVar("F", bound=Callable[..., Any])

ALL_PASSES = "all"

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--target", default="mcm36", show_default=True, help="Name, or a TOML file.",
        shell_complete=names_of("TARGETS", files=True),
    ),
    click.option(
        "--passes", default=None, shell_complete=complete_pipeline,
        help="Pipeline, such as 'simplify,fuse{...},...'.",
    ),
    click.option(
        "--plan", default=None, metavar="FILE", shell_complete=complete_files,
        help="Divide ops as a plan of mcmc parallelize says, before anything else.",
    ),
    click.option(
        "--planner", default=None, metavar="NAME{...}", shell_complete=names_of("PLANNERS"),
        help="The same with a plan that this planner makes now.",
    ),
    click.option(
        "-O", "level", type=parse_level, default=None, metavar="LEVEL",
        shell_complete=names_of("LEVELS", files=True),
        help="Effort of the search: 0 greedy, 1 dp, 2 portfolio (default), 3 long, with simulator; "
        "or a name of mcmc strategies, or a TOML file.",
    ),
    click.option(
        "--partitioner", default=None, shell_complete=names_of("STRATEGIES"),
        help="Strategy, as listed by mcmc strategies; overrides that of the level.",
    ),
    click.option(
        "--objective", type=click.Choice(["period", "latency", "chips", "energy"]),
        default=None,
        help="What is to be small: time per inference of a full package (default), time of one "
        "inference in an empty one, chips for --throughput, or energy of an inference.",
    ),
    click.option(
        "--max-latency", "max_latency_s", type=parse_duration, default=None, metavar="DURATION",
        help="The most throughput of placements that answer one inference within this time, such "
        "as 5ms.",
    ),
    click.option(
        "--throughput", type=parse_rate, default=None, metavar="N",
        help="Inferences per second that --objective chips is to reach.",
    ),
    click.option(
        "--mapper", default=None, metavar="NAME{...}", shell_complete=names_of("MAPPERS"),
        help="Who lays chips out that are fabrics, such as annealing (as the level says).",
    ),
    click.option(
        "--mapping-model", default=None, metavar="NAME{...}",
        shell_complete=names_of("MAPPING_MODELS"),
        help="Whom it asks for periods, such as round-trips (as the level says, which is auto).",
    ),
    COST_MODEL,
    click.option(
        "--routing", type=click.Choice(["relay", "strict"]), default=None,
        help="Rule for long dependencies: relay them (default), or the strict triangle rule.",
    ),
    click.option(
        "--fallback", type=click.Choice(["host", "error"]), default=None,
        help="What becomes of ops that chips cannot run: the host runs them, or the model is "
        "refused (as the target says, or host).",
    ),
    click.option(
        "--chips", type=click.IntRange(1), default=None,
        help="Use only the first N chips of the target.",
    ),
    click.option(
        "--replicas", type=click.IntRange(1), default=None,
        help="Pipelines side by side on equal shares of the chips (as many as are fastest).",
    ),
    click.option(
        "--forbid-chip", "forbidden_chips", type=click.IntRange(0), multiple=True, metavar="PLACE",
        help="Leave out the chip at this place of the package. Repeatable.",
    ),
    click.option(
        "--pin", "pins", type=parse_pin, multiple=True, metavar="NAME=CHIP",
        help="Chip of an op or a group; NAME may have * and ?. Repeatable.",
    ),
    click.option(
        "--assignment", default=None, metavar="FILE", shell_complete=complete_files,
        help="Take the chip of every op from a CSV or JSON file instead of searching.",
    ),
    click.option(
        "--repair-assignment", is_flag=True,
        help="Take the nearest valid assignment where that of the file breaks a rule.",
    ),
    click.option("--seed", type=SEED, default=None, help="Seed of everything random (0)."),
    click.option(
        "--dim", "dims", type=parse_dimension, multiple=True, metavar="NAME=N",
        help="Size of a symbolic dimension. Repeatable.",
    ),
    click.option(
        "--shape", "shapes", type=parse_shape, multiple=True, metavar="INPUT=N,N",
        help="Shape of an input; wins over --dim. Repeatable.",
    ),
    click.option(
        "--trip-count", "trip_counts", type=parse_dimension, multiple=True, metavar="LOOP=N",
        help="Iterations of a loop whose count depends on data. Repeatable.",
    ),
    click.option(
        "--samples", type=click.IntRange(1), default=None,
        help="Most partitions that a strategy evaluates (as the level says).",
    ),
    click.option(
        "--budget", "budget_s", type=parse_duration, default=None, metavar="DURATION",
        help="Time limit of the search, such as 60s; results need not be reproducible.",
    ),
    click.option(
        "--inferences", type=click.IntRange(1, 100_000), default=None,
        help="Inferences that are simulated.",
    ),
    click.option(
        "--verify-seeds", type=click.IntRange(1), default=None,
        help="Random inputs that are compared.",
    ),
    click.option(
        "--input", default=None, metavar="FILE", shell_complete=complete_files,
        help="An .npz file with an array per model input, for shapes that depend on values, and to "
        "be compared as well.",
    ),
    click.option(
        "--test-data/--no-test-data", "test_data", default=None,
        help="Compare test_data_set_N folders beside the model, too (default), or not.",
    ),
    click.option(
        "--state", multiple=True, metavar="PAST=PRESENT",
        help="An input and the output that the next inference of its sequence takes for it; they "
        "stay on the chip (by the customary names of caches). Repeatable; none for none.",
    ),
    click.option(
        "--sequences", type=click.IntRange(1), default=None,
        help="Sequences whose states the chips must have room for (as many as are needed and fit).",
    ),
)  # fmt: skip


def compile_options(function: F) -> F:
    """Adds the options; the verb gets them as one parameter `options: CompileOptions`.

    `target` and `print_after` stay parameters of their own. Plug-ins are loaded before the verb
    runs.
    """

    @functools.wraps(function)
    def verb(
        *,
        plugin: tuple[Path, ...],
        dims: tuple[tuple[str, int], ...],
        shapes: tuple[tuple[str, tuple[int, ...]], ...],
        trip_counts: tuple[tuple[str, int], ...],
        passes: str | None,
        plan: str | None,
        planner: str | None,
        level: int | str | None,
        partitioner: str | None,
        objective: str | None,
        max_latency_s: float | None,
        throughput: float | None,
        mapper: str | None,
        mapping_model: str | None,
        cost_model: str | None,
        routing: str | None,
        fallback: str | None,
        chips: int | None,
        replicas: int | None,
        forbidden_chips: tuple[int, ...],
        pins: tuple[tuple[str, int], ...],
        assignment: str | None,
        repair_assignment: bool,
        seed: int | None,
        samples: int | None,
        budget_s: float | None,
        inferences: int | None,
        verify_seeds: int | None,
        input: str | None,
        test_data: bool | None,
        state: tuple[str, ...],
        sequences: int | None,
        **rest: Any,
    ) -> Any:
        if planner is not None:
            from mcm_compiler.processes.one_thread import use_one_thread

            # Before NumPy is imported: planners that learn do so reproducibly.
            use_one_thread()
        from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
        from mcm_compiler.text import spec_text

        if repair_assignment and assignment is None:
            raise click.UsageError("--repair-assignment needs --assignment")
        if assignment is not None and partitioner is not None:
            raise click.UsageError("--assignment takes no --partitioner")
        _check_objective(objective, max_latency_s, throughput)
        if plan is not None and planner is not None:
            raise click.UsageError("--plan takes no --planner")
        if (given_plan := plan or planner) is not None:
            option = "file" if plan is not None else "planner"
            first = f"apply_plan{{{option}={spec_text.print_value(given_plan)}}}"
            passes = f"{first},{passes or DEFAULT_PIPELINE}"
        load_plugins(plugin)
        given: dict[str, Any] = {
            "passes": passes,
            "level": level,
            "partitioner": partitioner,
            "mapper": mapper,
            "mapping_model": mapping_model,
            "cost_model": cost_model,
            "routing": routing,
            "fallback": fallback,
            "chips": chips,
            "replicas": replicas,
            "forbidden_chips": tuple(sorted(set(forbidden_chips))) or None,
            "pins": pins or None,
            "assignment": assignment,
            "repair_assignment": repair_assignment or None,
            "seed": seed,
            "objective": objective,
            "max_latency_s": max_latency_s,
            "throughput": throughput,
            "samples": samples,
            "budget_s": budget_s,
            "inferences": inferences,
            "verify_seeds": verify_seeds,
            "input": input,
            "test_data": test_data,
            "state": parse_states(state),
            "sequences": sequences,
        }
        options = CompileOptions(
            dims=once_each("--dim", dims),
            shapes=once_each("--shape", shapes),
            trip_counts=once_each("--trip-count", trip_counts),
            **{key: value for key, value in given.items() if value is not None},
        )
        return function(options=options, **rest)

    command: Any = plugin_option(verb)
    # Decorators apply from the last to the first.
    for option in reversed(_OPTIONS):
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
    from mcm_compiler.text.printable import printable

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
