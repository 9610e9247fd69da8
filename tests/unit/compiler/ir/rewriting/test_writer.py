"""Files: one below the threshold, two above it, nothing half-written."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from mcm_compiler.ir.rewriting import writer
from mcm_models.zoo.bert import BertTiny
from mcm_models.zoo.lstm_language_models import LstmLm


def test_small_model_is_one_file(tmp_path):
    writer.write_model(LstmLm(hidden=8, vocab=20).build(), tmp_path / "lm.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["lm.onnx"]
    onnx.checker.check_model(str(tmp_path / "lm.onnx"), full_check=True)


@pytest.fixture
def low_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "INLINE_LIMIT_BYTES", 1000)


@pytest.mark.usefixtures("low_threshold")
def test_large_model_has_its_weights_beside_it(tmp_path):
    model = BertTiny().build()
    path = tmp_path / "bert-tiny.onnx"
    writer.write_model(model, path)
    files = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    assert set(files) == {"bert-tiny.onnx", "bert-tiny.onnx.data"}
    assert files["bert-tiny.onnx"] < 200_000
    assert files["bert-tiny.onnx.data"] >= 0.99 * writer.total_tensor_bytes(model)

    read = ir.load(path)
    for name, value in model.graph.initializers.items():
        stored = read.graph.initializers[name].const_value
        assert stored.tobytes() == value.const_value.tobytes()
        if isinstance(stored, ir.ExternalTensor) and stored.nbytes >= writer.ALIGN_FROM_BYTES:
            assert stored.offset % writer.ALIGNMENT == 0
    ort.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.usefixtures("low_threshold")
def test_two_writes_give_equal_bytes_and_keep_the_model(tmp_path):
    model = LstmLm(hidden=16, vocab=50).build()
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        writer.write_model(model, tmp_path / folder / "lm.onnx")
    assert isinstance(model.graph.initializers["embedding.weight"].const_value, ir.LazyTensor)
    for name in ("lm.onnx", "lm.onnx.data"):
        first = (tmp_path / "one" / name).read_bytes()
        assert first == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("threshold", [0, 1 << 30], ids=["external", "inline"])
def test_failure_leaves_the_old_files(tmp_path, monkeypatch, threshold):
    monkeypatch.setattr(writer, "INLINE_LIMIT_BYTES", threshold)
    path = tmp_path / "lm.onnx"
    writer.write_model(LstmLm(hidden=16, vocab=50).build(), path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def fail() -> ir.TensorProtocol:
        raise OSError("disk full")

    model = LstmLm(hidden=16, vocab=50, seed=1).build()
    extents = ir.Shape([16, 50])
    broken = ir.LazyTensor(fail, ir.DataType.FLOAT, extents, name="projection.weight")
    model.graph.initializers["projection.weight"].const_value = broken
    with pytest.raises((OSError, ir.serde.SerdeError)):
        writer.write_model(model, path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_inline_weights_of_an_external_source_are_copied(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    ir.save(
        LstmLm(hidden=8, vocab=20).build(),
        source / "lm.onnx",
        external_data="lm.data",
        size_threshold_bytes=0,
    )
    model = ir.load(source / "lm.onnx")
    kept = list(model.graph.initializers.values())
    assert all(isinstance(v.const_value, ir.ExternalTensor) for v in kept)
    writer.write_model(model, tmp_path / "copy.onnx")
    assert all(isinstance(v.const_value, ir.ExternalTensor) for v in kept)
    copy = onnx.load(tmp_path / "copy.onnx", load_external_data=False)
    assert not any(tensor.external_data for tensor in copy.graph.initializer)
    ort.InferenceSession(tmp_path / "copy.onnx", providers=["CPUExecutionProvider"])
