"""Diagnostics: errors, warnings and notes for users.

A diagnostic has a code that `mcmc explain` knows, a message with numbers, the place, and a
hint with a lever to pull. Stages collect diagnostics and raise one `CompileError` with all of
them, so that a user sees every fault of a file at once.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Severity(enum.StrEnum):
    """How bad it is: an error stops the compile, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    Attributes:
        code: identifier in the catalogue, such as `MCM-P003`; plug-ins use a prefix of their own.
        message: one sentence with the numbers.
        at: the place (node, file, option), or None where there is none.
        hint: what the user can do, or None.
        severity: see `Severity`.

    Raises:
        TypeError: for fields of other types, which no report could hold.
    """

    code: str
    message: str
    at: str | None = None
    hint: str | None = None
    severity: Severity = Severity.ERROR

    def __post_init__(self) -> None:
        # Passes of others make these, whatever the types say.
        said: dict[str, object] = {"code": self.code, "message": self.message}
        said |= {k: t for k, t in (("at", self.at), ("hint", self.hint)) if t is not None}
        wrong = [name for name, text in said.items() if not isinstance(text, str)]
        if wrong:
            raise TypeError(f"the {wrong[0]} of a diagnostic is a text")
        if not isinstance(self.severity, Severity):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the severity of a diagnostic is no {type(self.severity).__name__}")

    def to_dict(self) -> dict[str, str | None]:
        """The JSON form, as in `report.json` and with `--format json`."""
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "at": self.at,
            "hint": self.hint,
        }

    def lines(self) -> list[str]:
        """The text form: what and how bad, then the place and the hint where there are any."""
        lines = [f"{self.severity.value}[{self.code}]: {self.message}"]
        if self.at is not None:
            lines.append(f"  at: {self.at}")
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


class CompileError(Exception):
    """The compile (or check, or simulation) cannot go on; carries at least one error.

    Raises:
        ValueError: if built without any diagnostic of severity error.
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        found = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        if not any(d.severity is Severity.ERROR for d in found):
            raise ValueError("a CompileError needs at least one diagnostic of severity error")
        super().__init__("\n".join(str(d) for d in found))
        self.diagnostics: tuple[Diagnostic, ...] = found

    def __reduce__(self) -> tuple[type[CompileError], tuple[tuple[Diagnostic, ...]]]:
        # An exception travels between processes by what its message is; that would lose the rest.
        return type(self), (self.diagnostics,)


MAX_QUOTED = 120
"""Characters of a foreign name that a message repeats."""


def quote(name: str) -> str:
    """A name from an untrusted file, made safe to print: control characters escaped, cut short."""
    shown = name if len(name) <= MAX_QUOTED else name[: MAX_QUOTED - 3] + "..."
    return "'" + shown.encode("unicode_escape").decode("ascii") + "'"
