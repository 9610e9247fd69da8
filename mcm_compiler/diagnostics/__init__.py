"""Diagnostics: errors, warnings and notes for users.

A diagnostic has a code that `mcmc explain` knows, a message with numbers, the place, and a
hint with a lever to pull. The catalogue states the hint and the severity that most messages of a
code have; it is read when they are asked for. Stages collect diagnostics and raise one
`CompileError` with all of them, so that a user sees every fault of a file at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

from mcm_compiler.diagnostics.catalog import Severity as Severity
from mcm_compiler.diagnostics.catalog import entry_of

_T = TypeVar("_T")


class _Stated(Generic[_T]):
    """A field that the catalogue states for the code of a diagnostic, where none is given."""

    def __init__(self, otherwise: _T) -> None:
        self._otherwise = otherwise
        """For codes of plug-ins."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> None: ...
    @overload
    def __get__(self, of: Diagnostic, owner: type) -> _T: ...
    def __get__(self, of: Diagnostic | None, owner: type) -> _T | None:
        if of is None:
            return None
        if (given := vars(of)[self._name]) is not None:
            return given
        entry = entry_of(of.code)
        return self._otherwise if entry is None else getattr(entry, self._name)

    def __set__(self, of: Diagnostic, given: _T | None) -> None:
        vars(of)[self._name] = given


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    Attributes:
        code: identifier in the catalogue, such as `MCM-P003`; plug-ins use a prefix of their own.
        message: one sentence with the numbers.
        at: the place (node, file, option), or None where there is none.
        hint: what the user can do, or None; by default what the catalogue says.
        severity: see `Severity`; by default what the catalogue says.

    Raises:
        TypeError: for fields of other types, which no report could hold.
    """

    code: str
    message: str
    at: str | None = None
    hint: _Stated[str | None] = _Stated(None)
    severity: _Stated[Severity] = _Stated(Severity.ERROR)

    def __post_init__(self) -> None:
        # Passes of others make these, whatever the types say.
        given = {name: value for name, value in vars(self).items() if value is not None}
        severity = given.pop("severity", Severity.ERROR)
        wrong = [
            name for name in ("code", "message", *given) if not isinstance(given.get(name), str)
        ]
        if wrong:
            raise TypeError(f"the {wrong[0]} of a diagnostic is a text")
        if not isinstance(severity, Severity):
            raise TypeError(f"the severity of a diagnostic is no {type(severity).__name__}")

    def to_dict(self) -> dict[str, str | None]:
        """The JSON form, as in `report.json` and with `--format json`."""
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "at": self.at,
            "hint": self.hint,
        }

    def within(self, place: str) -> Diagnostic:
        """The same finding with the place that its own place is in."""
        return replace(self, at=f"{place}, {self.at}" if self.at else place)

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

    @classmethod
    def of(
        cls, code: str, message: str, at: str | None = None, hint: str | None = None
    ) -> CompileError:
        """The exception with one diagnostic, which is an error."""
        return cls(Diagnostic(code, message, at, hint))

    @classmethod
    def raise_any(cls, diagnostics: Iterable[Diagnostic]) -> None:
        """Raises the exception if there is any diagnostic."""
        if found := tuple(diagnostics):
            raise cls(found)

    def changed(self, unless: Collection[str] = (), **changes: Any) -> CompileError:
        """The exception with other fields of its diagnostics, but for those of some codes."""
        return CompileError(
            [d if d.code in unless else replace(d, **changes) for d in self.diagnostics]
        )

    def __reduce__(self) -> tuple[type[CompileError], tuple[tuple[Diagnostic, ...]]]:
        # An exception travels between processes by what its message is; that would lose the rest.
        return type(self), (self.diagnostics,)


MAX_QUOTED = 120
"""Characters of a foreign name that a message repeats."""


def quote(name: str) -> str:
    """A name from an untrusted file, made safe to print: control characters escaped, cut short."""
    shown = name if len(name) <= MAX_QUOTED else name[: MAX_QUOTED - 3] + "..."
    return "'" + shown.encode("unicode_escape").decode("ascii") + "'"
