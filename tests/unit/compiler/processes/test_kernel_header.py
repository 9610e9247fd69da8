from __future__ import annotations

import pytest

from mcm_compiler.processes.kernel_archive import (
    ArchiveError,
    KernelHeader,
    read_header,
    versions_differ,
)

HEADER = KernelHeader("cpython-311", "linux", "x86_64", "1.2", "3.4", "generic", "", 1, 2, 3)


def test_header_comes_back(tmp_path):
    path = tmp_path / "kernels.bin"
    path.write_bytes(HEADER.line() + b"[]abc")
    assert read_header(path) == HEADER


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (HEADER.line() + b"[]ab", "should have"),
        (HEADER.line() + b"[]abcd", "should have"),
        (HEADER.line().replace(b'"format": 1', b'"format": 2') + b"[]abc", "format 1"),
        (HEADER.line().replace(b"numba", b"other") + b"[]abc", "damaged"),
        (b"", "damaged"),
        (b"[1]\n", "damaged"),
        (b"\xff\xfe" * 9000, "damaged"),
    ],
)
def test_what_is_no_whole_archive_is_refused(tmp_path, data, reason):
    path = tmp_path / "kernels.bin"
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match=reason):
        read_header(path)


def test_versions_are_compared():
    assert versions_differ(HEADER, numba="1.2", llvmlite="3.4") == ""
    assert "numba 1.2 with llvmlite 3.4, and this is 1.3 with 3.4" in versions_differ(
        HEADER, numba="1.3", llvmlite="3.4"
    )
