from __future__ import annotations

import numpy as np
import onnx
import pytest

from mcm_compiler.execution.piecewise import StoredBytes

DATA = bytes(range(64))


def external(**entries: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(dims=[8], data_type=onnx.TensorProto.INT8)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def test_small_tensors_are_copied_wherever_they_are(tmp_path):
    (tmp_path / "data").write_bytes(DATA)
    stored = StoredBytes(tmp_path)
    assert stored.of(external(location="data", offset="8", length="8"), 8) == DATA[8:16]
    assert stored.of(external(location="data", length="8"), 8) == DATA[:8]
    inline = onnx.numpy_helper.from_array(np.arange(8, dtype=np.int8))
    assert stored.of(inline, 8) == inline.raw_data
    assert stored.of(inline, 7) is None
    assert stored.of(external(location="data", length="8"), 7) is None


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "../secret", "length": "8"},
        {"location": "link", "length": "8"},
        {"location": "folder", "length": "8"},
        {"location": "missing", "length": "8"},
        {"location": "none", "length": "8"},
        {"location": "data", "offset": "60", "length": "8"},
        {"location": "data", "offset": "-8", "length": "8"},
        {"location": "data", "length": "-8"},
        {"location": "data", "length": "eight"},
        {"location": "data"},
        {"length": "8"},
    ],
)
def test_what_is_not_plain_to_find_is_left_to_others(tmp_path, entries):
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(DATA)
    (folder / "data").write_bytes(DATA)
    (folder / "none").write_bytes(b"")
    (folder / "link").symlink_to(tmp_path / "secret")
    assert StoredBytes(folder).of(external(**entries), 64) is None


def test_floats_are_read_in_place(tmp_path):
    (tmp_path / "data").write_bytes(DATA)
    stored = StoredBytes(tmp_path)
    entries = {"location": "data", "offset": "8", "length": "8"}
    for dims, same in (([2], True), ([1, 2], True), ([3], False)):
        tensor = external(**entries)
        tensor.data_type, tensor.dims[:] = onnx.TensorProto.FLOAT, dims
        found = stored.array(tensor)
        assert (found is not None) == same
        if found is not None:
            assert found.shape == tuple(dims)
            assert found.tobytes() == DATA[8:16]
    assert stored.array(external(**entries)) is None
