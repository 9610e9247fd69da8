"""Test data beside a model, whose shapes are sizes of its open dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcm_compiler.checking.comparison.user_data import data_set_folders, read_data_set
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.drafting.solution import Found
from mcm_compiler.drafting.symbols import OpenModel
from mcm_compiler.execution.npz_inputs import check_inputs, read_npz

MAX_BYTES = 256 << 20
"""Larger data are not looked into."""


def sizes_of_data(path: Path, opened: OpenModel) -> tuple[dict[str, Found], str | None]:
    """Sizes that data beside a model have.

    Read are `NAME.npz` beside `NAME.onnx`, and the first `test_data_set_N` of a folder that holds
    no other model. Data that cannot be read, or that fit the model not at all, are passed over.

    Args:
        path: the model's file.
        opened: of it.

    Returns:
        Sizes by symbol, and the name of the `.npz` file if it was that.
    """
    npz = path.with_suffix(".npz")
    try:
        if npz.is_file() and npz.stat().st_size <= MAX_BYTES:
            arrays = read_npz(npz)
            check_inputs(opened.model, arrays, str(npz), {})
            found = _sizes(opened, arrays, npz.name)
            if found is not None and arrays:
                return found, npz.name
        others = sum(1 for file in path.parent.iterdir() if file.suffix == ".onnx") - 1
        folders = data_set_folders(path.absolute().parent)
        if folders and not others and _bytes_in(folders[0]) <= MAX_BYTES:
            data = read_data_set(folders[0], opened.model)
            return _sizes(opened, data.inputs, folders[0].name) or {}, None
    except (CompileError, OSError):
        return {}, None
    return {}, None


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.pb") if file.is_file())


def _sizes(opened: OpenModel, arrays: Mapping[str, Any], origin: str) -> dict[str, Found] | None:
    """None where two arrays differ in a dimension of one name, or in one that has a size."""
    found: dict[str, Found] = {}
    for name, shape in opened.shapes.items():
        given = getattr(arrays.get(name), "shape", None)
        if shape is None or given is None:
            continue
        if len(given) != len(shape):
            return None
        for size, number in zip(shape, given, strict=True):
            known = size
            if isinstance(size, str):
                known = found.setdefault(size, Found(int(number), f"the data in {origin}")).size
            if known != number:
                return None
    return found
