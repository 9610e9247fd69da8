"""JAX functions and flax modules through jax2onnx."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from exports.export import Export
from flax import nnx
from jax2onnx import to_onnx

EXPORTER = "jax2onnx"
PACKAGES = ("jax", "flax", "jax2onnx", "onnx")


def _write(path: Path, function: Callable[..., Any], shapes: Sequence[tuple[Any, ...]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = to_onnx(function, list(shapes), model_name=path.stem)
    assert isinstance(model, onnx.ModelProto)
    onnx.save(model, path)


def _weights(seed: int, *shape: int) -> jax.Array:
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.standard_normal(shape) / shape[0] ** 0.5, dtype=jnp.float32)


class _Mixer(nnx.Module):
    """Two layers of an MLP-Mixer over `[n, 8, 12]`."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.List(nnx.Linear(8, 8, rngs=rngs) for _ in range(2))
        self.channels = nnx.List(nnx.Linear(12, 12, rngs=rngs) for _ in range(2))
        self.norms = nnx.List(nnx.LayerNorm(12, rngs=rngs) for _ in range(2))

    def __call__(self, x: jax.Array) -> jax.Array:
        for tokens, channels, norm in zip(self.tokens, self.channels, self.norms, strict=True):
            y = jnp.swapaxes(norm(x), 1, 2)
            x = x + jnp.swapaxes(nnx.gelu(tokens(y)), 1, 2)
            x = x + nnx.silu(channels(x))
        return x.mean(1)


class _Convolutions(nnx.Module):
    """Channels-last convolutions with pooling over `[n, 16, 16, 3]`."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        self.second = nnx.Conv(8, 12, (3, 3), strides=(2, 2), rngs=rngs)
        self.head = nnx.Linear(192, 6, rngs=rngs)

    def __call__(self, image: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.first(image)), window_shape=(2, 2), strides=(2, 2))
        x = nnx.tanh(self.second(x))
        return self.head(x.reshape(x.shape[0], -1))


def _mixer(path: Path) -> None:
    _write(path, _Mixer(nnx.Rngs(31)), [("B", 8, 12)])


def _convolutions(path: Path) -> None:
    _write(path, _Convolutions(nnx.Rngs(32)), [(2, 16, 16, 3)])


def _scan(path: Path) -> None:
    into, within = _weights(33, 6, 10), _weights(34, 10, 10)

    def recurrence(frames: jax.Array) -> jax.Array:
        def step(state: jax.Array, frame: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = jnp.tanh(frame @ into + state @ within)
            return state, state

        return jax.lax.scan(step, jnp.zeros(10), frames)[1]

    _write(path, recurrence, [(7, 6)])


def _while(path: Path) -> None:
    matrix = _weights(35, 5, 5)

    def power(x: jax.Array) -> jax.Array:
        def step(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            i, y = carry
            y = y @ matrix
            return i + 1, y / (1e-3 + jnp.abs(y).max())

        return jax.lax.while_loop(lambda carry: carry[0] < 4, step, (jnp.int32(0), x))[1]

    _write(path, power, [(3, 5)])


def exports() -> list[Export]:
    """All models of this exporter."""
    return [
        Export("jax_mixer", "flax MLP-Mixer with a free batch", _mixer, {"B": 2}, target="mcm4"),
        Export("jax_convolutions", "flax convolutions in channels-last order", _convolutions,
               target="mcm4"),
        Export("jax_scan", "lax.scan over time", _scan, target="mcm4"),
        Export("jax_while", "lax.while_loop", _while, target="mcm4"),
    ]  # fmt: skip
