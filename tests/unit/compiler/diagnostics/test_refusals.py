"""Which errors of the system are told as refusals."""

from __future__ import annotations

import errno
import os

import pytest

from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.diagnostics.refusals import refusal_of_the_system


@pytest.mark.parametrize("name", ["/far/away", b"/far/away"])
def test_a_refused_file_is_named_with_the_reason(name: str | bytes) -> None:
    found = refusal_of_the_system(OSError(errno.EACCES, os.strerror(errno.EACCES), name))
    assert found is not None
    assert found.code in {entry.code for entry in catalog().values()}
    assert os.strerror(errno.EACCES) in found.message
    assert found.at == "'/far/away'"
    assert found.hint


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EACCES, "no file is named"),
        FileNotFoundError(errno.ENOENT, "may be a fault of ours", "x"),
        OSError("no number"),
    ],
)
def test_others_are_not(error: OSError) -> None:
    assert refusal_of_the_system(error) is None
