"""Keras 3's own exporter, on its torch backend."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import contextlib
import io
import os
import warnings
import zlib
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from exports.export import Export
from keras import layers

EXPORTER = "keras"
PACKAGES = ("keras", "torch", "onnxscript", "onnx")


def _write(path: Path, model: keras.Model) -> None:
    rng = np.random.default_rng(zlib.crc32(path.stem.encode()))
    weights: list[np.ndarray] = []
    for weight in model.get_weights():
        noise = rng.standard_normal(weight.shape) / weight.size**0.3
        weights.append((noise if weight.ndim > 1 else rng.random(weight.shape) + 0.5).astype("f4"))
    model.set_weights(weights)
    model([np.zeros([1, *x.shape[1:]], x.dtype) for x in model.inputs])
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        model.export(str(path), format="onnx", verbose=False)


def _separable(path: Path) -> None:
    image = keras.Input((24, 24, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(image)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for filters in (12, 16):
        y = layers.SeparableConv2D(filters, 3, padding="same", activation="relu")(x)
        y = layers.BatchNormalization()(layers.SeparableConv2D(filters, 3, padding="same")(y))
        x = layers.Add()([layers.Conv2D(filters, 1)(x), y])
        x = layers.MaxPooling2D(2, padding="same")(x)
    x = layers.GlobalAveragePooling2D()(x)
    _write(path, keras.Model(image, layers.Dense(5, activation="softmax")(x)))


def _recurrent(path: Path) -> None:
    tokens = keras.Input((9,), dtype="int32", name="tokens")
    x = layers.Embedding(40, 12)(tokens)
    x = layers.Bidirectional(layers.LSTM(10, return_sequences=True))(x)
    x = layers.GRU(8)(x)
    _write(path, keras.Model(tokens, layers.Dense(3, activation="sigmoid")(x)))


def _attention(path: Path) -> None:
    series = keras.Input((14, 8), name="series")
    x = series + layers.Attention()([layers.Dense(8)(series), layers.Dense(8)(series)])
    x = layers.Conv1D(12, 3, padding="causal", activation="gelu")(x)
    x = layers.GlobalMaxPooling1D()(x)
    _write(path, keras.Model(series, [layers.Dense(1)(x), layers.Dense(4)(x)]))


def exports() -> list[Export]:
    """All models of this exporter."""
    return [
        Export("keras_separable_cnn", "separable convolutions in channels-last order",
               _separable, shapes={"image": (1, 24, 24, 3)}),
        Export("keras_bidirectional_lstm", "text classifier with LSTM and GRU", _recurrent,
               shapes={"tokens": (1, 9)}, target="mcm4"),
        Export("keras_attention", "attention over a time series, two outputs", _attention,
               shapes={"series": (1, 14, 8)}, target="mcm4"),
    ]  # fmt: skip
