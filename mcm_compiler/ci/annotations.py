"""Annotations that GitHub shows beside a file: workflow commands in the log of a step.

A runner reads them from standard output and from standard error. `%`, line ends, and in
properties `:` and `,` are written as `%XX`; nothing else needs it (GitHub's documentation of
workflow commands).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from mcm_compiler.contracts import zoo
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.text.printable import printable

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning"}


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether the process runs in a step of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def workflow_commands(
    model: str, diagnostics: Iterable[Diagnostic], environment: Mapping[str, str]
) -> list[str]:
    """A workflow command per error and warning; notes stay in the log.

    Args:
        model: its path as given, or `zoo:NAME`, which has no file.
        diagnostics: about it.
        environment: of the process; `GITHUB_WORKSPACE` is where GitHub's paths start.
    """
    lines: list[str] = []
    file = None if model.startswith(zoo.PREFIX) else _in_workspace(model, environment)
    for diagnostic in diagnostics:
        command = _COMMANDS.get(diagnostic.severity)
        if command is None:
            continue
        properties = {"file": file, "title": f"{diagnostic.code} {model}"}
        shown = ",".join(
            f"{name}={escaped_property(printable(value))}"
            for name, value in properties.items()
            if value is not None
        )
        _, *rest = diagnostic.lines()
        message = "\n".join(printable(line) for line in (diagnostic.message, *rest))
        lines.append(f"::{command} {shown}::{escaped_data(message)}")
    return lines


def escaped_data(text: str) -> str:
    """`text` as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_property(text: str) -> str:
    """`text` as the value of a property of a workflow command."""
    return escaped_data(text).replace(":", "%3A").replace(",", "%2C")


def _in_workspace(model: str, environment: Mapping[str, str]) -> str:
    workspace = environment.get("GITHUB_WORKSPACE")
    if not workspace:
        return model
    path = os.path.relpath(model, workspace)
    return model if path.startswith(os.pardir) else path
