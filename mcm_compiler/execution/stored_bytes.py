"""Bytes of small tensors in protobufs, inline or in the external data of a folder."""

from __future__ import annotations

import math
import mmap
from pathlib import Path

import numpy as np
import onnx


class StoredBytes:
    """Copies of bytes, whose files are mapped once.

    Args:
        folder: of the external data; files outside it are not read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, mmap.mmap | None] = {}

    def of(self, tensor: onnx.TensorProto, most: int) -> bytes | None:
        """The bytes of `tensor`.

        Args:
            tensor: of a protobuf.
            most: size from which on a tensor stays where it is.

        Returns:
            A copy; None for more than `most` bytes, and where they are not plain to find.
        """
        data = self._view(tensor)
        return None if data is None or not 0 < len(data) <= most else bytes(data)

    def array(self, tensor: onnx.TensorProto) -> np.ndarray | None:
        """A tensor of 32-bit floats that is not copied; None for others, as `of`."""
        data = self._view(tensor)
        if data is None or tensor.data_type != onnx.TensorProto.FLOAT:
            return None
        plain = len(data) == 4 * math.prod(tensor.dims)
        return np.frombuffer(data, "<f4").reshape(tensor.dims) if plain else None

    def _view(self, tensor: onnx.TensorProto) -> bytes | memoryview | None:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return tensor.raw_data
        entries = {entry.key: entry.value for entry in tensor.external_data}
        try:
            start, size = int(entries.get("offset", "0")), int(entries["length"])
        except (KeyError, ValueError):
            return None
        file = self._file(entries.get("location", ""))
        if file is None or not 0 < size <= len(file) - start or start < 0:
            return None
        return memoryview(file)[start : start + size]

    def _file(self, name: str) -> mmap.mmap | None:
        if name not in self._files:
            self._files[name] = None
            path = self._folder / name
            # Whatever is not a plain file of the folder is left to readers that check locations.
            plain = Path(name).name == name and path.is_file() and not path.is_symlink()
            if plain and path.stat().st_size:
                with path.open("rb") as file:
                    self._files[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._files[name]
