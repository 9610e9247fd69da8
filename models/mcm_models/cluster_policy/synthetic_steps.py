"""Random training steps, for learning what carries over between models.

Four families: recurrent networks that are unrolled over time, convolutional ones with branches
and shortcuts, feed-forward ones with several towers, and transformers. They share no code, size or
name with the models of the zoo: results on those are results on models that were not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.boxes.box import INPUT, Box, StepProblem
from mcm_models.cluster_policy.synthetic_builder import DeviceRates, StepBuilder


@dataclass(frozen=True, eq=False)
class SyntheticCase:
    """A step, and the description of a box.

    Attributes:
        family: of the step.
        step: without times.
        box_text: TOML of the family `box`.
        rates: of the kinds of the box by name.
    """

    family: str
    step: StepBuilder
    box_text: str
    rates: dict[str, DeviceRates]

    def problem(self, box: Box) -> StepProblem:
        """The step in the box that the text describes."""
        return self.step.problem(box, tuple(self.rates[name] for name in box.kinds))


def recurrent_step(
    layers: int,
    steps: int,
    width: int,
    batch: int,
    gates: int = 4,
    vocabulary: int = 0,
    *,
    attention: bool = False,
) -> StepBuilder:
    """An unrolled network with gates.

    Args:
        layers: one on top of the other.
        steps: of time.
        width: of states.
        batch: rows.
        gates: products per cell.
        vocabulary: classes of each step's answer; 0 for one answer at the end.
        attention: each step of the upper half reads all states of the lower half.
    """
    step = StepBuilder()
    activation = 4 * batch * width
    product = 2.0 * batch * width * width * gates
    data = [step.op(INPUT, (), (activation,), layer=0)[0] for _ in range(steps)]
    for layer in range(layers):
        there = step.variable(4 * width * width * gates, layer)
        own = step.variable(4 * width * width * gates, layer)
        bias = step.variable(4 * width * gates, layer)
        memory = data if attention and layer == layers // 2 else []
        state = step.op("Zeros", (), (activation,), layer=layer)[0]
        cell = state
        out: list[int] = []
        for now in range(steps):
            below = data[now]
            if memory:
                below = _attend(step, state, memory, below, activation, layer)
            wide = activation * gates
            x = step.op("MatMul", (below, there), (wide,), product, layer)[0]
            h = step.op("MatMul", (state, own), (wide,), product, layer)[0]
            total = step.op("Add", (x, h), (wide,), layer=layer)[0]
            total = step.op("BiasAdd", (total, bias), (wide,), layer=layer)[0]
            parts = step.op("Split", (total,), (activation,) * gates, layer=layer)
            opened = [step.op("Sigmoid", (v,), (activation,), layer=layer)[0] for v in parts[:-1]]
            value = step.op("Tanh", (parts[-1],), (activation,), layer=layer)[0]
            kept = step.op("Mul", (opened[0], cell), (activation,), layer=layer)[0]
            fresh = step.op("Mul", (opened[-1], value), (activation,), layer=layer)[0]
            cell = step.op("Add", (kept, fresh), (activation,), layer=layer)[0]
            shown = step.op("Tanh", (cell,), (activation,), layer=layer)[0]
            gate = opened[len(opened) // 2]
            state = step.op("Mul", (gate, shown), (activation,), layer=layer)[0]
            out.append(state)
        data = out
    # Each step's answer, or the last one's.
    classes, layer = vocabulary or 16, layers - 1
    weight = step.variable(4 * width * classes, layer)
    losses: list[int] = []
    for value in data if vocabulary else data[-1:]:
        scores, flops = (4 * batch * classes,), 2.0 * batch * width * classes
        found = step.op("MatMul", (value, weight), scores, flops, layer)[0]
        found = step.op("LogSoftmax", (found,), scores, layer=layer)[0]
        losses.append(step.op("Nll", (found,), (4,), layer=layer)[0])
    step.train(step.op("AddN", tuple(losses), (4,), layer=layer)[0])
    return step


def _attend(
    step: StepBuilder, state: int, memory: list[int], below: int, activation: int, layer: int
) -> int:
    """Read the memory by a state, joined to the value below."""
    stacked = step.op("Concat", tuple(memory), (activation * len(memory),), layer=layer)[0]
    flops = activation * len(memory) / 2
    scores = step.op("BatchMatMul", (state, stacked), (4 * len(memory),), flops, layer)[0]
    scores = step.op("Softmax", (scores,), (4 * len(memory),), layer=layer)[0]
    read = step.op("BatchMatMul", (scores, stacked), (activation,), flops, layer)[0]
    return step.op("Add", (read, below), (activation,), layer=layer)[0]


def convolutional_step(rng: np.random.Generator) -> StepBuilder:
    """Stages of convolutions with branches that meet, and shortcuts."""
    step = StepBuilder()
    batch = int(rng.choice([16, 32, 64, 128]))
    image, width = int(rng.choice([32, 64, 128])), int(rng.choice([16, 32, 64]))
    value = step.op(INPUT, (), (4 * batch * image * image * 3,), layer=0)[0]
    channels, layer = 3, 0
    for _stage in range(int(rng.integers(2, 5))):
        for _block in range(int(rng.integers(1, 5))):
            branches: list[int] = []
            for _branch in range(int(rng.integers(1, 5))):
                found, inner = value, channels
                for _ in range(int(rng.integers(1, 4))):
                    found = _convolution(step, found, (batch, image, inner, width), layer)
                    inner = width
                branches.append(found)
            if len(branches) > 1 and channels == width and rng.random() < 0.5:
                branches.append(value)
            size = 4 * batch * image * image * width
            value = branches[0]
            if len(branches) > 1:
                value = step.op("Sum", tuple(branches), (size,), layer=layer)[0]
            channels, layer = width, layer + 1
        image, size = image // 2, batch * image * image * width
        value = step.op("MaxPool", (value,), (size,), layer=layer)[0]
        width *= 2
    _classes(step, value, batch, channels, layer)
    return step


def _convolution(step: StepBuilder, value: int, size: tuple[int, int, int, int], layer: int) -> int:
    batch, image, inner, outer = size
    weight = step.variable(4 * 9 * inner * outer, layer)
    bytes_made = 4 * batch * image * image * outer
    flops = 2.0 * 9 * inner * outer * batch * image * image
    value = step.op("Conv", (value, weight), (bytes_made,), flops, layer)[0]
    scale = step.variable(8 * outer, layer)
    value = step.op("BatchNorm", (value, scale), (bytes_made,), layer=layer)[0]
    return step.op("Relu", (value,), (bytes_made,), layer=layer)[0]


def _classes(step: StepBuilder, value: int, batch: int, width: int, layer: int) -> None:
    weight = step.variable(4 * width * 100, layer)
    value = step.op("Mean", (value,), (4 * batch * width,), layer=layer)[0]
    flops = 2.0 * batch * width * 100
    value = step.op("MatMul", (value, weight), (400 * batch,), flops, layer)[0]
    step.train(step.op("Nll", (value,), (4,), layer=layer)[0])


def towers_step(rng: np.random.Generator) -> StepBuilder:
    """Feed-forward towers of unequal sizes that meet in one."""
    step = StepBuilder()
    batch = int(rng.choice([64, 256, 1024]))
    met: list[int] = []
    width = int(rng.choice([128, 256, 512]))
    deepest = 0
    for _tower in range(int(rng.integers(1, 9))):
        inner = int(rng.choice([256, 512, 1024, 2048]))
        value = step.op(INPUT, (), (4 * batch * inner,), layer=0)[0]
        depth = int(rng.integers(1, 7))
        for layer in range(depth):
            outer = width if layer == depth - 1 else int(rng.choice([512, 1024, 2048, 4096]))
            value = _dense(step, value, (batch, inner, outer), layer)
            inner = outer
        deepest = max(deepest, depth)
        met.append(value)
    value = met[0]
    if len(met) > 1:
        value = step.op("Sum", tuple(met), (4 * batch * width,), layer=deepest)[0]
    for layer in range(int(rng.integers(1, 5))):
        value = _dense(step, value, (batch, width, width), deepest + layer)
    _classes(step, value, batch, width, deepest + 4)
    return step


def _dense(step: StepBuilder, value: int, size: tuple[int, int, int], layer: int) -> int:
    batch, inner, outer = size
    weight, bias = step.variable(4 * inner * outer, layer), step.variable(4 * outer, layer)
    flops, made = 2.0 * batch * inner * outer, (4 * batch * outer,)
    value = step.op("MatMul", (value, weight), made, flops, layer)[0]
    value = step.op("BiasAdd", (value, bias), made, layer=layer)[0]
    return step.op("Relu", (value,), made, layer=layer)[0]


def transformer_step(rng: np.random.Generator) -> StepBuilder:
    """Blocks of attention, head by head, and of dense layers."""
    step = StepBuilder()
    rows = int(rng.choice([512, 1024, 4096]))
    width, heads = int(rng.choice([128, 256, 512])), int(rng.choice([2, 4, 8]))
    length = int(rng.choice([32, 64, 128]))
    part = width // heads
    value = step.op(INPUT, (), (4 * rows * width,), layer=0)[0]
    layers = int(rng.integers(1, 7))
    for layer in range(layers):
        read: list[int] = []
        for _ in range(heads):
            made, flops = (4 * rows * part,), 2.0 * rows * width * part
            q, k, v = (
                step.op(
                    "MatMul", (value, step.variable(4 * width * part, layer)), made, flops, layer
                )[0]
                for _ in range(3)
            )
            table, work = (4 * rows * length,), 2.0 * rows * length * part
            scores = step.op("BatchMatMul", (q, k), table, work, layer)[0]
            scores = step.op("Softmax", (scores,), table, layer=layer)[0]
            read.append(step.op("BatchMatMul", (scores, v), made, work, layer)[0])
        whole = (4 * rows * width,)
        joined = step.op("Concat", tuple(read), whole, layer=layer)[0]
        joined = _dense(step, joined, (rows, width, width), layer)
        value = step.op("Add", (value, joined), whole, layer=layer)[0]
        inner = _dense(step, value, (rows, width, 4 * width), layer)
        inner = _dense(step, inner, (rows, 4 * width, width), layer)
        value = step.op("Add", (value, inner), whole, layer=layer)[0]
    _classes(step, value, rows, width, layers)
    return step


MOST_CELLS = 160
"""Of a drawn recurrent network."""


def random_recurrent(rng: np.random.Generator) -> StepBuilder:
    """An unrolled network."""
    layers = int(rng.integers(1, 10))
    steps = int(rng.integers(3, max(4, min(32, MOST_CELLS // layers + 1))))
    return recurrent_step(
        layers,
        steps,
        width=int(rng.choice([256, 512, 1024, 2048])),
        batch=int(rng.choice([16, 32, 64, 128])),
        gates=int(rng.integers(2, 6)),
        vocabulary=int(rng.choice([0, 0, 1_000, 5_000, 20_000])),
        attention=bool(rng.random() < 0.4),
    )


FAMILIES: dict[str, Callable[[np.random.Generator], StepBuilder]] = {
    "recurrent": random_recurrent,
    "convolutional": convolutional_step,
    "towers": towers_step,
    "transformer": transformer_step,
}


def synthetic_case(seed: int, index: int) -> SyntheticCase:
    """One of endlessly many cases; half of them are recurrent."""
    rng = np.random.default_rng([seed, index])
    family = str(rng.choice(list(FAMILIES), p=[0.5, 0.2, 0.1, 0.2]))
    step = FAMILIES[family](rng)
    gpus = int(rng.integers(2, 9))
    flops = float(10 ** rng.uniform(12.0, 13.6))
    rates = {
        "host": DeviceRates(flops / rng.uniform(8, 40), 5e10, 1e-6),
        "accelerator": DeviceRates(
            flops, flops / rng.uniform(8, 40), float(10 ** rng.uniform(-5.3, -4.8))
        ),
    }
    # Half of the boxes have so little memory that a model may not fit one device, or only just all.
    memory = 64.0 * 1024
    if rng.random() < 0.5:
        made = sum(
            size for size, view in zip(step.value_bytes, step.view_of, strict=True) if view < 0
        )
        memory = max(16.0, made / 2**20 * float(10 ** rng.uniform(-0.3, 0.3)) / gpus)
    copies = {
        "host_bandwidth_gb_per_s": float(10 ** rng.uniform(0.6, 1.2)),
        "device_bandwidth_gb_per_s": float(10 ** rng.uniform(0.5, 1.6)),
        "latency_us": float(10 ** rng.uniform(0.7, 1.5)),
    }
    return SyntheticCase(family, step, _box_text(gpus, rates, memory, copies), rates)


def _box_text(
    gpus: int, rates: dict[str, DeviceRates], memory_mib: float, copies: dict[str, float]
) -> str:
    lines = ['family = "box"']
    for name, role in (("host", "cpu"), ("accelerator", "gpu")):
        rate = rates[name]
        size = memory_mib if role == "gpu" else 1024.0 * 1024
        lines += [
            f"[kind.{name}]",
            f'role = "{role}"',
            f"memory_mib = {size!r}",
            f"memory_bandwidth_gb_per_s = {rate.bytes_per_s / 1e9!r}",
            f"peak_tflop_per_s = {rate.flops / 1e12!r}",
            f"launch_overhead_us = {rate.launch_s * 1e6!r}",
            "[[device]]",
            f'kind = "{name}"',
            f"count = {gpus if role == 'gpu' else 1}",
        ]
    lines += ["[copy]", *(f"{key} = {value!r}" for key, value in copies.items())]
    return "\n".join(lines) + "\n"
