"""Files that are named .onnx and are something else: the message says what they are."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.npz_inputs import read_npz
from mcm_compiler.ir.reading.importer import import_onnx

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> m (float[4] x) => (float[4] y) { y = Relu (x) }'
)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 134217728\n"


def zipped(name):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, MODEL.SerializeToString())
    return buffer.getvalue()


def tarred():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.onnx"))
    return buffer.getvalue()


def saved_array():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(4))
    return buffer.getvalue()


FILES = {
    "Git LFS pointer": POINTER,
    "zip archive": zipped("model.onnx"),
    "gzip archive": gzip.compress(MODEL.SerializeToString()),
    "tar archive": tarred(),
    "onnxruntime's own format": b"\x24\x00\x00\x00ORTM" + bytes(64),
    "TFLite": b"\x1c\x00\x00\x00TFL3" + bytes(64),
    "HTML page": b"\n<!DOCTYPE html>\n<html><body>Not found</body></html>",
    "XML document": b'<?xml version="1.0"?><net name="m" version="11"/>',
    "JSON text": b'{"error": "Repository not found"}',
    "safetensors": (72).to_bytes(8, "little") + b'{"w":{"dtype":"F32"}}' + bytes(64),
    "GGUF": b"GGUF\x03\x00\x00\x00" + bytes(64),
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(64),
    "NumPy array": saved_array(),
    "Python pickle": pickle.dumps({"state": [1, 2]}),
    "ONNX model as text": onnx.printer.to_text(MODEL).encode(),
    "protobuf text": str(MODEL).encode(),
    "text file": b"placeholder, see the release page\n",
}


@pytest.mark.parametrize("kind", FILES)
def test_another_kind_of_file_is_named(tmp_path, kind):
    path = tmp_path / "model.onnx"
    path.write_bytes(FILES[kind])
    with pytest.raises(CompileError) as caught:
        import_onnx(path)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-I003"
    assert kind in fault.message
    assert fault.at == str(path)
    assert fault.hint


def test_a_model_that_is_cut_short_is_no_other_kind_of_file(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL.SerializeToString()[:-7])
    with pytest.raises(CompileError) as caught:
        import_onnx(path)
    assert "cut short" in caught.value.diagnostics[0].message


def test_a_pointer_in_place_of_external_data(tmp_path):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4096])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.data")
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.graph.initializer.append(weight)
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "w"], ["y"]))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "w.data").write_bytes(POINTER)
    with pytest.raises(CompileError) as caught:
        import_onnx(tmp_path / "model.onnx")
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.hint) == ("MCM-I020", "the data were not downloaded: git lfs pull")


def test_a_pointer_in_place_of_arrays(tmp_path):
    (tmp_path / "x.npz").write_bytes(POINTER)
    with pytest.raises(CompileError, match="a Git LFS pointer"):
        read_npz(tmp_path / "x.npz")
