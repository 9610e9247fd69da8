"""Arrays written to `.npz` files, with equal bytes for equal arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.npz_inputs import read_npz
from mcm_compiler.execution.runtime_values import is_exotic
from mcm_compiler.processes.staging import whole_file

__all__ = ["read_npz", "write_npz"]


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays by name.

    Strings are stored with a fixed length and types of `ml_dtypes` as raw bits, as `numpy.load` can
    read.

    Raises:
        CompileError: MCM-A002 if the system refuses the write, MCM-U022 if a value is no array.
    """
    faults = [name for name, value in arrays.items() if not isinstance(value, np.ndarray)]
    if faults:
        raise CompileError(
            [
                Diagnostic(
                    "MCM-U022",
                    f"output {quote(name)} is a sequence or a map, not an array",
                    at=f"output {quote(name)}",
                )
                for name in faults
            ]
        )
    with whole_file(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, value in arrays.items():
            array = value.astype(str) if value.dtype == object else value
            if is_exotic(array.dtype):  # NumPy writes some of them as types that it cannot read
                array = np.ascontiguousarray(array).view(f"V{array.itemsize}").reshape(array.shape)
            # A ZipInfo of our own has a fixed date, where ZipFile.open would take today's.
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
