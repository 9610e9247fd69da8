"""Dispatches `mcmc VERB`. A verb's module is imported only when the verb runs.

Standard streams that cannot be written end the command, rather than losing what it says.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import errno
import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from mcm_compiler.cli import show
from mcm_compiler.cli.shell_scripts import VARIABLE, answer_shells
from mcm_compiler.cli.show import FAILURE_EXIT
from mcm_compiler.cli.supervision import may_leave_something, supervise
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes import interruption
from mcm_compiler.processes.crash_journal import finished, is_heard
from mcm_compiler.processes.interruption import EndingError

INTERRUPTED_EXIT = 130
"""128 and the number of SIGINT, as shells have it."""

PIPE_EXIT = 141
"""The same of SIGPIPE: the reader of a stream has exited, as in `mcmc report out | head`."""

VERBS = {
    "compile": "Compile an ONNX model for a package of chips.",
    "build": "Compile all models of a project for all its targets.",
    "check": "Re-prove a compiled folder, from its files alone.",
    "run": "Run a compiled folder on inputs from an .npz file.",
    "measure": "Measure the kernels of a model on a device.",
    "calibrate": "Fit a target's parameters to measured kernel times.",
    "simulate": "Simulate a compiled folder.",
    "report": "Show the report of a compiled folder.",
    "view": "Serve the report of a compiled folder to a browser.",
    "diff": "Compare two compiled folders, and show why one is slower.",
    "targets": "List packages and clusters, show one, or validate a file.",
    "passes": "List the passes and their options.",
    "parallelize": "Plan data, operator and pipeline parallelism of a model.",
    "explore": "Sweep a target's parameters, and show the Pareto front.",
    "strategies": "List the partition strategies.",
    "placers": "List the placers of mcmc place.",
    "costs": "List the cost models.",
    "train": "Train a learned component, such as the partitioning policy.",
    "opt": "Run passes on a model and print the result.",
    "new": "Write a plug-in template with tests.",
    "explain": "Explain a diagnostic code.",
    "completion": "Print the completion script of a shell.",
    "version": "Show the versions of the compiler and its dependencies.",
}
"""The verbs of the core with their help lines; all others are found through entry points."""

_VERBS = "mcm_compiler.cli.verbs"

_MODULES = {
    "listings": (
        "completion", "costs", "explain", "passes", "placers", "strategies", "targets", "version",
    ),
    "folders": ("report", "run", "simulate"),
    "measured_times": ("calibrate", "measure"),
}  # fmt: skip
"""Modules of several verbs, which have the names of these; the others have a verb each."""


def command_of(verb: str) -> click.Command:
    """The command of a verb, whose module is imported.

    Raises:
        click.UsageError: for a verb of a package that is not installed, or of none.
        CompileError: MCM-X003, MCM-X008 for an entry point that gives no command.
    """
    for module, verbs in _MODULES.items():
        if verb in verbs:
            return getattr(importlib.import_module(f"{_VERBS}.{module}"), verb)
    if verb in VERBS:
        return importlib.import_module(f"{_VERBS}.{verb}").command
    from mcm_compiler.plugin_kinds import lacking_package
    from mcm_compiler.registry import REGISTRIES

    if verb in (verbs := REGISTRIES["verb"]):
        found = verbs.get(verb)
        if isinstance(found, click.Command):
            return found
        message = f"verb {quote(verb)} is of type {type(found).__name__}, not a click.Command"
        hint = f"name a click.Command in its entry point 'verb.{verb}'"
        raise CompileError.of("MCM-X008", message, at=verbs.origin_of(verb), hint=hint)
    if package := lacking_package(f"verb.{verb}"):
        raise click.UsageError(
            f"The verb '{verb}' comes with the package {package}, which is not installed."
        )
    near = difflib.get_close_matches(verb, all_verbs(), n=2, cutoff=0.72)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise click.UsageError(f"There is no verb '{verb}'.{hint}", click.get_current_context(True))


def all_verbs() -> list[str]:
    """The verbs of the core, and behind them those of products and plug-ins; none is imported."""
    from mcm_compiler.registry import REGISTRIES

    return [*VERBS, *REGISTRIES["verb"].names_at_hand()]


def help_line(verb: str) -> str:
    """The line of a verb in lists of all; one that cannot be used says so there."""
    if verb in VERBS:
        return VERBS[verb]
    try:
        return command_of(verb).get_short_help_str(64)
    except CompileError as error:
        return f"{error.diagnostics[0].code}: cannot be used; `mcmc {verb}` shows why."


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return all_verbs()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name.startswith("-") or (ctx.resilient_parsing and cmd_name not in all_verbs()):
            return None
        return command_of(cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Verbs, of which those of the core are not imported; options where one is begun."""
        verbs = [
            CompletionItem(name, help=help_line(name))
            for name in all_verbs()
            if name.startswith(incomplete)
        ]
        return verbs if verbs else click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, help_line(name)) for name in all_verbs()])

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *_: Any, **extra: Any
    ) -> Any:
        """Runs a verb and exits: 0 for success, 1 for a diagnosed failure, 2 for wrong usage.

        An interrupt exits with 130. No failure shows a stack trace, unless `MCMC_DEBUG` is set.
        """
        extra["standalone_mode"] = False
        if VARIABLE in os.environ:
            answer_shells()
        try:
            code = super().main(args, prog_name or "mcmc", **extra)
        except click.Abort:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED_EXIT)
        except click.ClickException as error:
            error.show()
            sys.exit(show.USAGE_EXIT)
        except BaseException as error:
            # What answers a shell that completes leaves by SystemExit as well.
            answered = VARIABLE in os.environ and isinstance(error, SystemExit)
            if answered or interruption.ends_the_command(error):
                raise
            sys.exit(show.report_failure(error))
        sys.exit(code if isinstance(code, int) else 0)


@click.command(
    "mcmc",
    cls=LazyGroup,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="mcm-compiler", message="mcmc %(version)s")
def cli() -> None:
    """Compile ONNX models for multi-chip modules, with a proof.

    Run `mcmc VERB --help` for the options of a verb. Results go to stdout, progress and
    diagnostics to stderr.
    """


def main() -> None:
    """Entry point of the console script."""
    interruption.end_at_once()
    failed = guard_streams()
    if failed is not None:
        os._exit(failed)
    # Graphs are many small objects that all stay alive, so that most collections find nothing; with
    # Python's own thresholds they are 40 % of the time of a compile of 20,000 ops.
    gc.set_threshold(1_000_000, 50, 1000)
    # What is left at the end is given back to the system whole; a last collection would look at all
    # of it, and take graphs apart op by op, for a tenth of the time of a large compile.
    atexit.register(gc.freeze)
    supervise(sys.argv[1:])
    if not is_heard() and may_leave_something(sys.argv[1:]):
        interruption.end_by_raising(silent=False)
    exit_code = show.FAILURE_EXIT
    try:
        cli.main()
    except SystemExit as leaving:
        exit_code = leaving.code if isinstance(leaving.code, int) else show.FAILURE_EXIT
    except StreamFailedError:
        exit_code = show.FAILURE_EXIT  # reported below
    except KeyboardInterrupt:  # amid what click does after a verb
        exit_code = INTERRUPTED_EXIT
        interruption.say(interruption.line_of(signal.SIGINT))
    interruption.all_is_done()
    asked = interruption.received()
    if asked is not None and exit_code != 0:
        exit_code = 128 + asked
        if not is_heard() and exit_code != INTERRUPTED_EXIT:
            interruption.say(interruption.line_of(asked))
    failed = flushed()
    if failed is not None and asked is None:
        exit_code = failed
    finished(exit_code)
    sys.exit(exit_code)


_OUTPUT, _ERROR = 1, 2
_NAMES = {_OUTPUT: "standard output", _ERROR: "standard error"}


class StreamFailedError(EndingError):
    """A standard stream cannot be written; not for the handlers of other errors to swallow."""


class _Guarded(io.FileIO):
    """The file below a standard stream; discards what comes after the first failure."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.error: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.error is not None:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            raise StreamFailedError(_NAMES[self.fileno()]) from error


_guarded: dict[int, _Guarded] = {}


def guard_streams() -> int | None:
    """Has failures to write to standard streams raise `StreamFailedError`.

    Returns:
        The exit code where one of them is closed, and that is printed; else None.
    """
    for stream, descriptor in ((sys.stdout, _OUTPUT), (sys.stderr, _ERROR)):
        # Python has none for a descriptor that was closed when it started.
        if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
            return _told(descriptor, "it is closed")
    sys.stdout = _wrapped(sys.stdout, _OUTPUT)
    sys.stderr = _wrapped(sys.stderr, _ERROR)
    return None


def _wrapped(stream: Any, descriptor: int) -> Any:
    try:
        if os.name != "posix" or stream.fileno() != descriptor:
            return stream
    except (OSError, AttributeError):
        return stream
    stream.flush()
    raw = _guarded[descriptor] = _Guarded(descriptor)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        # Names in foreign models may hold what the terminal's encoding does not.
        errors="backslashreplace",
        line_buffering=stream.line_buffering or descriptor == _ERROR,
        write_through=stream.write_through,
    )


def flushed() -> int | None:
    """Writes what is buffered.

    Returns:
        The exit code where a stream has failed by now; else None. Prints why, unless its reader
        has exited.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except StreamFailedError:
            continue  # noted below
        except (OSError, ValueError):
            continue
    for descriptor, raw in _guarded.items():
        if raw.error is not None:
            if raw.error.errno == errno.EPIPE:
                return PIPE_EXIT
            return _told(descriptor, raw.error.strerror or str(raw.error))
    return None


def _told(descriptor: int, reason: str) -> int:
    """Says on the other stream that this one failed."""
    found = Diagnostic("MCM-U052", f"{_NAMES[descriptor]} cannot be written: {reason}")
    other = _ERROR if descriptor == _OUTPUT else _OUTPUT
    with contextlib.suppress(OSError):
        os.write(other, ("\n".join(found.lines()) + "\n").encode())
    return FAILURE_EXIT
