"""Committed exports with symbolic sizes put back: models as exporters leave them, to draft for.

python tools/reopened_exports.py FOLDER           names as exporters give them
python tools/reopened_exports.py FOLDER --every   a name of its own for every dimension
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import onnx
from onnx import TensorProto

EXPORTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "exports"
_INTEGERS = (TensorProto.INT32, TensorProto.INT64)


def reopened(model: onnx.ModelProto, every: bool) -> onnx.ModelProto:
    """A copy whose inputs have symbols for sizes, and that declares no other shape.

    Args:
        model: left unchanged.
        every: give each dimension of each input a name of its own, such as `image_2`; else
            batches, positions, heights and widths alone, with the names that exporters give them.
    """
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    del opened.graph.value_info[:]
    for value in opened.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    weights = {tensor.name for tensor in opened.graph.initializer}
    inputs = [
        value
        for value in opened.graph.input
        if value.name not in weights and value.type.HasField("tensor_type")
    ]
    batches = [tensor.shape.dim[0].dim_value for tensor in map(_tensor, inputs) if tensor.shape.dim]
    for value in inputs:
        tensor = _tensor(value)
        for axis, dim in enumerate(tensor.shape.dim):
            name = f"{value.name}_{axis}" if every else _usual_name(tensor, axis, batches[0])
            if name is not None and (every or dim.HasField("dim_value")):
                dim.Clear()
                dim.dim_param = name
    declared = {value.name: value for value in inputs}
    for value in opened.graph.output:
        if value.name in declared:  # one value, which has one shape
            value.CopyFrom(declared[value.name])
    return opened


def _tensor(value: onnx.ValueInfoProto) -> onnx.TypeProto.Tensor:
    return value.type.tensor_type


def _usual_name(tensor: onnx.TypeProto.Tensor, axis: int, batch: int) -> str | None:
    rank = len(tensor.shape.dim)
    if axis == 0:
        return "batch" if tensor.shape.dim[0].dim_value == batch else None
    if rank == 2 and tensor.elem_type in _INTEGERS:
        return "sequence"
    if rank == 4 and axis > 1:
        return ("height", "width")[axis - 2]
    return None


def write_reopened(folder: Path, every: bool) -> list[Path]:
    """Writes all exports into a folder, external data beside them; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for path in sorted(EXPORTS.glob("*.onnx")):
        model = onnx.load(path, load_external_data=False)
        (folder / path.name).write_bytes(reopened(model, every).SerializeToString())
        for data in EXPORTS.glob(f"{path.name}.data"):
            shutil.copyfile(data, folder / data.name)
        written.append(folder / path.name)
    return written


def main() -> None:
    """Writes what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", action="store_true")
    arguments = parser.parse_args()
    print(f"wrote {len(write_reopened(arguments.folder, arguments.every))} models")


if __name__ == "__main__":
    main()
