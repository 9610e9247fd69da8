"""Files of arrays, whole ones and all kinds of damaged ones."""

from __future__ import annotations

import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.npz_inputs import read_npz

HEADERS = {
    "unclosed": "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), ",
    "deep": "[" * 3000,
    "unclosed text": "'''",
    "shape of truths": "{'descr': '<f4', 'fortran_order': False, 'shape': (2, True)}",
    "beyond all integers":
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 10000000000000000000)}",
    "type that is none": "{'descr': 5, 'fortran_order': False, 'shape': (2, 4)}",
}  # fmt: skip


def _refused(path: Path) -> str:
    with pytest.raises(CompileError) as caught:
        read_npz(path)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-U020"
    assert diagnostic.at == str(path)
    return diagnostic.message


def test_arrays_are_read_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **{"a/b": np.arange(3), "c": np.array(["x"])})
    found = read_npz(path)
    assert list(found) == ["a/b", "c"]
    assert found["a/b"].tolist() == [0, 1, 2]
    assert found["c"].tolist() == ["x"]


@pytest.mark.parametrize("kind", HEADERS)
def test_a_damaged_header_is_told(tmp_path: Path, kind: str) -> None:
    text = HEADERS[kind].encode()
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text))
        archive.writestr("x.npy", start + text + bytes(64))
    assert "cannot be read" in _refused(path)


def test_an_archive_with_a_password_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.zeros(4))
    content = bytearray(path.read_bytes())
    content[6] |= 1  # flags of the entry, and of the same in the directory
    content[content.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert "encrypted" in _refused(path)


def test_no_damage_of_packed_arrays_goes_through_as_another_error(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).normal(size=64))
    whole = path.read_bytes()
    begin = whole.find(b"x.npy") + len(b"x.npy")
    for position in range(begin, begin + 200):
        content = bytearray(whole)
        content[position] ^= 0x55
        path.write_bytes(content)
        with suppress(CompileError):
            read_npz(path)


def test_what_is_no_array_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "abc")
    assert "'x' is no .npy array" in _refused(path)
