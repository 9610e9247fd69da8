"""Writing models: protobuf with weights inline or streamed into one external data file.

Weights pass through tensor by tensor (mapped files by a copy inside the kernel), so that writing
takes no more memory than the largest lazy tensor. The bytes depend on the model alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.map_types import model_to_proto
from mcm_compiler.graph.static_shapes import shape_of_tensor
from mcm_compiler.processes.private_folders import private_folder
from mcm_compiler.processes.staging import refuse_irregular

ALIGNMENT = 4096
"""Offsets of large tensors in external data: a page, so that the runtime can map them."""

ALIGN_FROM_BYTES = 4096
EXTERNAL_FROM_BYTES = 1024
"""Tensors of at least this size go into the external data file, where there is one."""

INLINE_LIMIT_BYTES = 1 << 28
"""Total size of weights up to which `write_model` keeps them inline.

Protobuf ends at 2 GiB, and a message takes several times its size in memory while it is written.
"""


@dataclass(frozen=True)
class DataLocation:
    """Where a tensor is in an external data file.

    Attributes:
        file: name of the file, next to the model.
        offset: in bytes.
        length: in bytes.
    """

    file: str
    offset: int
    length: int


def initializers_of(model: ir.Model) -> Iterator[ir.Value]:
    """Initializers of the main graph and of all subgraphs, in order."""
    for graph in graphs_of(model):
        yield from graph.initializers.data.values()


def total_tensor_bytes(model: ir.Model) -> int:
    """Bytes of all initializers as stored in ONNX."""
    return sum(v.const_value.nbytes for v in initializers_of(model) if v.const_value is not None)


def large_tensors(model: ir.Model) -> list[ir.TensorProtocol]:
    """Tensors of initializers that go into external data."""
    return [
        v.const_value
        for v in initializers_of(model)
        if v.const_value is not None
        and v.const_value.dtype is not ir.DataType.STRING
        and v.const_value.nbytes >= EXTERNAL_FROM_BYTES
    ]


_WHOLE: ContextVar[dict[ir.TensorProtocol, np.ndarray] | None] = ContextVar("whole", default=None)


@contextmanager
def kept_whole() -> Generator[None]:
    """While models are written, one weight at a time is kept whole for all that is cut from it."""
    token = _WHOLE.set({})
    try:
        yield
    finally:
        _WHOLE.reset(token)


def whole_array(tensor: ir.TensorProtocol) -> np.ndarray:
    """The elements of a weight that parts are cut from; not to be changed."""
    kept = _WHOLE.get()
    if kept is None or isinstance(tensor, ir.ExternalTensor):
        return tensor.numpy()
    if tensor not in kept:
        kept.clear()
        kept[tensor] = tensor.numpy()
    return kept[tensor]


def write_model(model: ir.Model, path: Path, inline_bytes: int | None = None) -> None:
    """Writes `model` to `path`, and its large weights to `<name>.data` if they are many.

    Both files are written in a private folder and then renamed.

    Args:
        model: left unchanged.
        path: the ONNX file.
        inline_bytes: weights up to which all are inline; None for `INLINE_LIMIT_BYTES`.

    Raises:
        OSError: if the files cannot be written.
        CompileError: MCM-U050 if one would take the place of something that is no file.
    """
    limit = INLINE_LIMIT_BYTES if inline_bytes is None else inline_bytes
    data_name = f"{path.name}.data" if total_tensor_bytes(model) > limit else None
    data_path = path.with_name(f"{path.name}.data")
    with private_folder(path.absolute().parent) as folder:
        staged = folder / path.name
        write_with_data(model, staged, data_name)
        for place in (path, data_path) if data_name is not None else (path,):
            refuse_irregular(place)
        # Without large weights there is none.
        if data_name is not None and (folder / data_name).exists():
            os.replace(folder / data_name, data_path)
        os.replace(staged, path)


def write_with_data(
    model: ir.Model,
    path: Path,
    data_name: str | None,
    shared: dict[int, DataLocation] | None = None,
    amend: Callable[[onnx.ModelProto], None] | None = None,
) -> dict[int, DataLocation]:
    """Writes `model` to `path`, its large weights to `data_name` in the same folder.

    Args:
        model: left unchanged.
        path: the ONNX file.
        data_name: name of the external data file; None keeps all weights inline. It is created
            only if a weight goes there.
        shared: tensors (by `id`) that lie in other data files of the folder already; they are
            referred to, not written again.
        amend: changes what is written; of a large graph, a changed copy takes far longer.

    Returns:
        Where each tensor (by `id`) that was written externally is.
    """
    written: dict[int, DataLocation] = {}
    if data_name is not None:
        known = shared or {}
        data_path = path.parent / data_name
        pending = [tensor for tensor in large_tensors(model) if id(tensor) not in known]
        if pending:
            written = write_data(pending, data_path)
    places = {**(shared or {}), **written}
    proto = proto_with_references(model, lambda tensor: places.get(id(tensor)))
    for entry, value in zip(
        proto.graph.initializer, model.graph.initializers.data.values(), strict=True
    ):
        entry.name = value.name or ""
    if amend is not None:
        amend(proto)
    path.write_bytes(proto.SerializeToString(deterministic=True))
    return written


def write_data(tensors: list[ir.TensorProtocol], path: Path) -> dict[int, DataLocation]:
    """Writes tensors one after the other, each once.

    Returns:
        The place of each (by `id`).
    """
    places: dict[int, DataLocation] = {}
    with path.open("wb") as file:
        for tensor in tensors:
            if id(tensor) in places:
                continue
            if tensor.nbytes >= ALIGN_FROM_BYTES:
                file.write(b"\0" * (-file.tell() % ALIGNMENT))
            offset = file.tell()
            try:
                tensor.tofile(file)  # pyright: ignore[reportAttributeAccessIssue]
            except OSError as error:
                if error.errno is None:
                    # numpy says how much it wrote; another write raises why that was not all.
                    file.write(tensor.tobytes())
                    file.flush()
                raise
            places[id(tensor)] = DataLocation(path.name, offset, file.tell() - offset)
            release(tensor)
    return places


def proto_with_references(
    model: ir.Model, place_of: Callable[[ir.TensorProtocol], DataLocation | None]
) -> onnx.ModelProto:
    """Serialises with tensors replaced by references to where they lie, then puts them back.

    Args:
        model: unchanged afterwards.
        place_of: where the tensor is; None keeps it inline.
    """
    moved: list[tuple[ir.Value, ir.TensorProtocol]] = []
    try:
        for value in initializers_of(model):
            tensor = value.const_value
            if tensor is None:
                continue
            place = place_of(tensor)
            if place is None:
                if isinstance(tensor, ir.ExternalTensor):  # as it is, it refers to the source
                    moved.append((value, tensor))
                    value.const_value = ir.external_data.convert_tensors_from_external([tensor])[0]
                continue
            moved.append((value, tensor))
            value.const_value = ir.ExternalTensor(
                place.file,
                place.offset,
                place.length,
                tensor.dtype,
                shape=shape_of_tensor(tensor),
                name=value.name or "",
            )
        return model_to_proto(model)
    finally:
        for value, tensor in moved:
            value.const_value = tensor


def release(tensor: ir.TensorProtocol) -> None:
    """Lets go of the pages of a memory-mapped tensor; it maps them again when asked."""
    if isinstance(tensor, ir.ExternalTensor):
        tensor.release()
