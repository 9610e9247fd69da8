"""What a training step begins with, as a file that numpy reads."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from mcm_compiler.processes.private_folders import private_folder
from mcm_compiler.processes.staging import refuse_irregular

_TIME = (1980, 1, 1, 0, 0, 0)
"""Of every entry, so that the bytes depend on the values alone."""


def write_initial_values(values: Mapping[str, ir.TensorProtocol], path: Path) -> None:
    """Writes an uncompressed `.npz` with an array by name, one at a time in memory.

    Args:
        values: by name of the input.
        path: the file; one that is there is replaced.

    Raises:
        OSError: if it cannot be written.
        CompileError: MCM-U050 if it would take the place of something that is no file.
    """
    refuse_irregular(path)
    with private_folder(path.absolute().parent) as folder:
        staged = folder / path.name
        with zipfile.ZipFile(staged, "w", allowZip64=True) as archive:
            for name, tensor in values.items():
                entry = zipfile.ZipInfo(f"{name}.npy", _TIME)
                with archive.open(entry, "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(tensor.numpy()), allow_pickle=False)
        os.replace(staged, path)
