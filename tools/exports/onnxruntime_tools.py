"""What onnxruntime's and onnxconverter-common's tools make of exported models.

Quantisation in its three forms, float16 conversion, and the transformer optimiser with its
fused `com.microsoft` ops. The float models come from torch's legacy exporter.
"""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from exports import torch_legacy
from exports.export import Export
from onnxconverter_common import float16
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer

EXPORTER = "onnxruntime tools"
PACKAGES = ("onnxruntime", "onnxconverter-common", "torch", "onnx")


class _Images(CalibrationDataReader):
    """Eight random images."""

    def __init__(self) -> None:
        rng = np.random.default_rng(41)
        self.images = iter(rng.standard_normal((8, 1, 3, 32, 32)).astype(np.float32))

    def get_next(self) -> Any:
        """The next feed, or None after the last."""
        image = next(self.images, None)
        return None if image is None else {"image": image}


def _named(name: str) -> Export:
    return next(e for e in torch_legacy.exports() if e.name == name)


def _float_model(name: str, folder: str) -> Path:
    path = Path(folder) / f"{name}.onnx"
    _named(name).write(path)
    return path


def _raised(name: str, folder: str) -> Path:
    """The model at opset 13, which has quantisation per channel."""
    path = _float_model(name, folder)
    onnx.save(onnx.version_converter.convert_version(onnx.load(path), 13), path)
    return path


def _static(path: Path, form: QuantFormat, per_channel: bool) -> None:
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_static(
            _raised("torch_mobilenet_opset11", folder),
            path,
            _Images(),
            quant_format=form,
            per_channel=per_channel,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )


def _qdq(path: Path) -> None:
    _static(path, QuantFormat.QDQ, per_channel=True)


def _qoperator(path: Path) -> None:
    _static(path, QuantFormat.QOperator, per_channel=False)


def _dynamic(path: Path) -> None:
    with TemporaryDirectory() as folder:
        quantize_dynamic(_float_model("torch_encoder_opset12", folder), path)


def _dynamic_lstm(path: Path) -> None:
    with TemporaryDirectory() as folder:
        quantize_dynamic(_raised("torch_lstm_opset9", folder), path)


def _int4(path: Path) -> None:
    with TemporaryDirectory() as folder:
        model = onnx.load(_float_model("torch_decoder_tied_opset14", folder))
        quantizer = MatMulNBitsQuantizer(model, block_size=16, is_symmetric=False)
        quantizer.process()
        onnx.save(quantizer.model.model, path)  # pyright: ignore[reportAttributeAccessIssue]


def _float16(path: Path) -> None:
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = onnx.load(_float_model("torch_resnet_unfolded", folder))
        onnx.save(float16.convert_float_to_float16(model, keep_io_types=True), path)


def _fused(path: Path) -> None:
    with TemporaryDirectory() as folder:
        source = _float_model("torch_encoder_opset12", folder)
        fused = optimizer.optimize_model(
            str(source), "bert", num_heads=4, hidden_size=32, opt_level=0
        )
        fused.save_model_to_file(str(path))


def _optimised(path: Path) -> None:
    with TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        options.log_severity_level = 3
        source = _float_model("torch_resnet_unfolded", folder)
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def exports() -> list[Export]:
    """All models of these tools."""
    text = {"batch": 2, "sequence": 9}
    return [
        Export("quantised_qdq", "depthwise blocks with QuantizeLinear and DequantizeLinear", _qdq,
               {"batch": 1}),
        Export("quantised_qoperator", "depthwise blocks with QLinearConv and com.microsoft ops",
               _qoperator, {"batch": 1}),
        Export("quantised_dynamic_encoder", "BERT-like encoder with DynamicQuantizeLinear",
               _dynamic, text),
        Export("quantised_dynamic_lstm", "language model with DynamicQuantizeLSTM", _dynamic_lstm,
               {"batch": 2, "time": 6}),
        Export("quantised_int4_decoder", "causal decoder with four-bit MatMulNBits", _int4,
               {"batch": 2, "sequence": 8}),
        Export("converted_float16", "residual network in float16 between float32 ends",
               _float16, {"batch": 2}, equality="float16"),
        Export("optimised_encoder", "BERT-like encoder with fused com.microsoft attention", _fused,
               text),
        Export("optimised_resnet", "residual network with FusedConv, saved by onnxruntime",
               _optimised, {"batch": 2}),
    ]  # fmt: skip
