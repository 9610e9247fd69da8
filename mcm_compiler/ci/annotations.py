"""Annotations that GitHub shows next to a file: workflow commands in the log of a step.

A runner reads them from standard output and from standard error. `%`, line ends, and in
properties `:` and `,` are written as `%XX`; nothing else needs it (GitHub's documentation of
workflow commands).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mcm_compiler.contracts import zoo
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.text.units import printable

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning"}


def wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the process runs in a step of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def workflow_commands(
    model: str, diagnostics: Iterable[Diagnostic], environment: Mapping[str, str]
) -> list[str]:
    """A workflow command per error and warning; notes stay in the log.

    Args:
        model: its path as given, or `zoo:NAME`, which has no file.
        diagnostics: about it.
        environment: of the process.
    """
    named = not model.startswith(zoo.PREFIX)
    file = path_in_repository(model, environment) if named else None
    return [line for d in diagnostics if (line := command_of(d, model, file)) is not None]


def command_of(
    diagnostic: Diagnostic, name: str, file: str | None, line: int | None = None
) -> str | None:
    """The workflow command of a diagnostic; None for a note.

    Args:
        diagnostic: to show.
        name: of the model or cell that it is about.
        file: the path in the repository to show it at, or None.
        line: in that file, or None for its first.
    """
    command = _COMMANDS.get(diagnostic.severity)
    if command is None:
        return None
    properties = {"file": file, "line": line, "title": f"{diagnostic.code} {name}"}
    shown = ",".join(
        f"{key}={escaped_property(printable(str(value)))}"
        for key, value in properties.items()
        if value is not None
    )
    _, *rest = diagnostic.lines()
    message = "\n".join(printable(text) for text in (diagnostic.message, *rest))
    return f"::{command} {shown}::{escaped_data(message)}"


def escaped_data(text: str) -> str:
    """`text` as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_property(text: str) -> str:
    """`text` as the value of a property of a workflow command."""
    return escaped_data(text).replace(":", "%3A").replace(",", "%2C")


def path_in_repository(path: str | os.PathLike[str], environment: Mapping[str, str]) -> str:
    """A path as services of code show it: from the root of its repository, with `/`.

    The root is the outermost folder above it with `.git` in `$GITHUB_WORKSPACE`, where a step may
    have checked the repository out into a folder; without a workspace the innermost one. Where
    there is none, paths begin in the workspace or the working folder. One outside is as given.
    """
    given = Path(path)
    real = Path(os.path.realpath(given.parent), given.name)
    workspace = environment.get("GITHUB_WORKSPACE")
    base = Path(os.path.realpath(workspace or os.curdir))
    roots = [folder for folder in real.parents if (folder / ".git").exists()]
    if workspace:
        roots = [folder for folder in roots if folder.is_relative_to(base)][::-1]
    root = roots[0] if roots else base
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else given.as_posix()
