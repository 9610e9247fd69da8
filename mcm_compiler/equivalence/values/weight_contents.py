"""Which tensors hold the same: type, shape and every byte.

Files of weights are large, and most weights are stored once and read by several models. So a
tensor is known by its place in a file first, then by a sample of its bytes. Only tensors with equal
samples are compared as a whole, byte by byte, which is stronger than any hash and costs less.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.graph.quick_serde import HeldTensor

SAMPLES = 64
"""Blocks of a large tensor that its sample is made of, first and last among them."""

SAMPLE_BYTES = 16

WHOLE_UP_TO_BYTES = SAMPLES * SAMPLE_BYTES
"""Tensors up to this size are their own key."""

COPIED_BYTES = 1 << 16
"""Tensors up to this size are copied to be hashed and compared."""

_CHUNK_BYTES = 1 << 24

Bytes = NDArray[np.uint8]


class WeightContents:
    """Numbers contents of tensors, 0, 1, 2 and so on.

    Attributes:
        lines: a sample of each line of a content, for those who look parts up in it.
        located: by two contents and the cuts that were expected, where one is part of the other.
    """

    def __init__(self) -> None:
        self.lines: dict[Hashable, NDArray[np.unsignedinteger[Any]]] = {}
        self.located: dict[Hashable, dict[int, tuple[tuple[int, int], ...]] | None] = {}
        self._contents: list[ir.TensorProtocol] = []
        self._by_sample: dict[Hashable, list[int]] = {}
        self._by_place: dict[Hashable, int] = {}
        self._by_object: dict[int, tuple[ir.TensorProtocol, int]] = {}
        self._files: dict[str, Bytes] = {}
        self._resolved: dict[str, str] = {}

    def content(self, tensor: ir.TensorProtocol) -> int:
        """The number of what `tensor` holds; equal for two tensors if and only if they are equal.

        Raises:
            OSError, ValueError: if its data cannot be read.
        """
        known = self._by_object.get(id(tensor))
        if known is not None:
            return known[1]
        found = self._find(tensor)
        self._by_object[id(tensor)] = (tensor, found)
        return found

    def content_of_new(self, tensor: ir.TensorProtocol) -> int:
        """As `content`, of a tensor that nobody else holds."""
        return self._find(tensor)

    def array(self, content: int) -> np.ndarray:
        """A copy of the elements of a content."""
        tensor = self._contents[content]
        array = np.array(tensor.numpy())
        if isinstance(tensor, ir.ExternalTensor):
            tensor.release()
        return array

    def tensor(self, content: int) -> ir.TensorProtocol:
        """A tensor of this content."""
        return self._contents[content]

    def stored(self, content: int) -> Bytes | None:
        """The bytes of a content as they are stored, or None where elements are less than one."""
        tensor = self._contents[content]
        if tensor.dtype is ir.DataType.STRING or tensor.dtype.itemsize < 1:
            return None
        return self._bytes(tensor)

    def shape(self, content: int) -> tuple[int, ...]:
        """The shape of a content."""
        return tuple(self._contents[content].shape.numpy())

    def _find(self, tensor: ir.TensorProtocol) -> int:
        shape = tuple(tensor.shape.numpy())
        kind = (tensor.dtype, shape)
        if tensor.dtype is ir.DataType.STRING:
            words = tuple(np.asarray(tensor.numpy()).reshape(-1).tolist())
            return self._first_of((*kind, words), tensor)
        place = self._place(tensor)
        if place is not None and (*kind, place) in self._by_place:
            return self._by_place[*kind, place]
        data = self._bytes(tensor)
        if data.size <= WHOLE_UP_TO_BYTES:
            return self._first_of((*kind, data.tobytes()), tensor)
        # Of a tensor that is copied in no time, a hash of all of it is the sample.
        sample = hash(data.tobytes()) if data.size <= COPIED_BYTES else _sample(data)
        found = self._same(tensor, data, (*kind, data.size, sample))
        if place is not None:
            self._by_place[*kind, place] = found
        return found

    def _place(self, tensor: ir.TensorProtocol) -> Hashable | None:
        """Where a tensor is stored; None where that is in the model."""
        if not isinstance(tensor, ir.ExternalTensor):
            return None
        path = str(tensor.path)
        if path not in self._resolved:
            self._resolved[path] = str(Path(path).resolve())
        return (self._resolved[path], tensor.offset or 0, tensor.nbytes)

    def _first_of(self, key: Hashable, tensor: ir.TensorProtocol) -> int:
        numbers = self._by_sample.setdefault(key, [])
        if not numbers:
            numbers.append(self._add(tensor))
        return numbers[0]

    def _same(self, tensor: ir.TensorProtocol, data: Bytes, sample: Hashable) -> int:
        alike = self._by_sample.setdefault(sample, [])
        for number in alike:
            if self._equal(data, self._bytes(self._contents[number])):
                if isinstance(tensor, ir.ExternalTensor):
                    self._contents[number] = tensor  # cheaper to read than one that is computed
                return number
        alike.append(self._add(tensor))
        return alike[-1]

    def _add(self, tensor: ir.TensorProtocol) -> int:
        self._contents.append(tensor)
        return len(self._contents) - 1

    def _equal(self, left: Bytes, right: Bytes) -> bool:
        if left.size <= COPIED_BYTES:
            return left.tobytes() == right.tobytes()
        return all(
            np.array_equal(left[at : at + _CHUNK_BYTES], right[at : at + _CHUNK_BYTES])
            for at in range(0, left.size, _CHUNK_BYTES)
        )

    def _bytes(self, tensor: ir.TensorProtocol) -> Bytes:
        """The stored form; of a file the mapped part of it, and nothing is read yet."""
        if isinstance(tensor, ir.ExternalTensor):
            path = str(tensor.path)
            if path not in self._files:
                # A plain view: slices of a memmap are ten times as slow to make.
                self._files[path] = np.memmap(path, np.uint8, mode="r").view(np.ndarray)
            offset = tensor.offset or 0
            return self._files[path][offset : offset + tensor.nbytes]
        if isinstance(tensor, HeldTensor):
            return tensor.stored
        return np.frombuffer(tensor.tobytes(), np.uint8)


def _sample(data: Bytes) -> bytes:
    return data[_sampled(data.size)].tobytes()


@functools.lru_cache(maxsize=256)
def _sampled(size: int) -> NDArray[np.int64]:
    """Places of the sampled bytes of a tensor of `size` bytes."""
    starts = np.linspace(0, size - SAMPLE_BYTES, SAMPLES).astype(np.int64)
    return (starts[:, None] + np.arange(SAMPLE_BYTES)).reshape(-1)
