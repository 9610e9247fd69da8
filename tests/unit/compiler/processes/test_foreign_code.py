"""What foreign code raises: what passes, and how the rest is told."""

from __future__ import annotations

import errno

import pytest

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault, is_refused_by_the_system
from mcm_compiler.processes.interruption import EndingError


class _Speechless(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("lost"), "RuntimeError: lost"),
        (RuntimeError(), "RuntimeError"),
        (SystemExit(3), "SystemExit: 3"),
        (_Speechless(), "_Speechless, whose text raises SystemExit"),
    ],
    ids=["text", "none", "exit", "speechless"],
)
def test_errors_are_told_whatever_their_texts_do(error: BaseException, text: str) -> None:
    assert fault_text(error) == text


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (CompileError(Diagnostic("MY-001", "no")), True),
        (KeyboardInterrupt(), True),
        (SystemExit(130), True),
        (EndingError(), True),
        (SystemExit(1), False),
        (SystemExit({"a": "code"}), False),
        (GeneratorExit(), False),
        (BaseException(), False),
        (MemoryError(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_diagnostics_and_what_ends_the_command_pass(error: BaseException, passes: bool) -> None:
    assert is_no_fault(error) is passes


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (OSError(errno.ENOSPC, "full"), True),
        (PermissionError(errno.EACCES, "no", "x"), True),
        (FileNotFoundError(errno.ENOENT, "none", "x"), False),
        (ConnectionResetError(errno.ECONNRESET, "reset"), False),
        (OSError("no number"), False),
        (ValueError(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_system_refuses(error: BaseException, refused: bool) -> None:
    assert is_refused_by_the_system(error) is refused
