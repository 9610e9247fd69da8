"""Training steps of unrolled recurrent networks: forward, backward and update, op by op."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE, Box, StepProblem
from tests.generators.step_problems import box_of

RATES = {"cpu": (3.0e11, 4.0e10, 2e-6), "gpu": (2.6e12, 1.87e11, 8e-6)}
"""FLOP/s, bytes/s and seconds per launch of a kind of device."""


def unrolled_box(gpus: int) -> Box:
    """A CPU and equal GPUs that copy to each other through the host."""
    rate = np.full((gpus + 1, gpus + 1), 6e9)
    rate[0], rate[:, 0] = 8e9, 8e9
    latency = np.full((gpus + 1, gpus + 1), 20e-6)
    np.fill_diagonal(rate, np.inf)
    np.fill_diagonal(latency, 0.0)
    return box_of(
        kinds=tuple(RATES),
        devices=("cpu:0", *(f"gpu:{number}" for number in range(gpus))),
        kind_of=np.array([0] + [1] * gpus, np.int32),
        memory_bytes=np.array([64 << 30] + [int(11.2 * 2**30)] * gpus, np.int64),
        copy_bytes_per_s=rate,
        copy_latency_s=latency,
    )


@dataclass(frozen=True)
class UnrolledSize:
    """Size of a network: `layers` of LSTM cells that are unrolled over `steps` of time.

    With a `decoder`, as many cells again follow, begin where the first ones end, and read the
    uppermost states of the encoder in each step.
    """

    layers: int = 2
    steps: int = 4
    hidden: int = 64
    batch: int = 8
    vocabulary: int = 512
    decoder: bool = False


@dataclass
class _Tape:
    """Ops in order; each makes one value, of the same number, besides those that split."""

    types: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    reads: list[list[int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    views: dict[int, int] = field(default_factory=dict)
    together: list[int] = field(default_factory=list)

    def op(
        self, kind: str, reads: list[int], size: int, flops: float = 0.0, layer: int = -1
    ) -> int:
        """Adds an op; its value has `size` numbers of four bytes."""
        number = len(self.types)
        self.types.append(kind)
        self.names.append(f"op{number}")
        self.reads.append(reads)
        self.sizes.append(4 * size)
        self.flops.append(flops or float(size))
        self.layers.append(layer)
        self.together.append(number)
        return number


def _cell(tape: _Tape, x: int, state: tuple[int, int], weight: tuple[int, int], size: UnrolledSize,
          layer: int) -> tuple[int, int]:  # fmt: skip
    cells, inner = size.batch * size.hidden, 2 * size.hidden

    def point(kind: str, *reads: int) -> int:
        return tape.op(kind, list(reads), cells, 0.0, layer)

    both = tape.op("Concat", [x, state[0]], 2 * cells, 0.0, layer)
    matrix = tape.op("Identity", [weight[0]], inner * 4 * size.hidden, 0.0, layer)
    tape.views[matrix] = weight[0]
    product = tape.op("MatMul", [both, matrix], 4 * cells, 8.0 * cells * inner, layer)
    gates = tape.op("BiasAdd", [product, weight[1]], 4 * cells, 0.0, layer)
    i, f, o, g = (point("Split", gates) for _ in range(4))
    kept = point("Mul", point("Sigmoid", f), state[1])
    fresh = point("Mul", point("Sigmoid", i), point("Tanh", g))
    memory = point("Add", kept, fresh)
    return point("Mul", point("Sigmoid", o), point("Tanh", memory)), memory


def _forward(tape: _Tape, size: UnrolledSize) -> tuple[list[int], list[int], int]:
    """Variables, losses and the number of the last forward op."""
    hidden, cells = size.hidden, size.batch * size.hidden
    stacks = 2 if size.decoder else 1
    variables: list[int] = []

    def variable(count: int, layer: int) -> int:
        variables.append(tape.op(VARIABLE, [], count, 0.0, layer))
        return variables[-1]

    tokens = [tape.op(INPUT, [], size.batch * size.steps) for _ in range(stacks)]
    last = size.layers - 1
    tables = [variable(size.vocabulary * hidden, 0) for _ in range(stacks)]
    weights = [
        [(variable(8 * hidden * hidden, k), variable(4 * hidden, k)) for k in range(size.layers)]
        for _ in range(stacks)
    ]
    softmax = variable(hidden * size.vocabulary, last)
    state = [(-1, -1)] * size.layers
    losses: list[int] = []
    memory: list[int] = []
    for stack in range(stacks):
        for _ in range(size.steps):
            x = tape.op("Gather", [tokens[stack], tables[stack]], cells, 0.0, 0)
            for k in range(size.layers):
                if state[k][0] < 0:
                    zero = tape.op("Zeros", [], cells, 0.0, k)
                    state[k] = (zero, zero)
                state[k] = _cell(tape, x, state[k], weights[stack][k], size, k)
                x = state[k][0]
            if stack == 0 and size.decoder:
                memory.append(x)
                continue
            if size.decoder:
                scores = [tape.op("Score", [x, m], size.batch, 2.0 * cells, last) for m in memory]
                packed = tape.op("Pack", scores, size.batch * size.steps, 0.0, last)
                x = tape.op("Context", [packed, x, *memory], cells, 2.0 * cells * size.steps, last)
            logits = size.batch * size.vocabulary
            y = tape.op("MatMul", [x, softmax], logits, 2.0 * logits * hidden, last)
            losses.append(tape.op("CrossEntropy", [y, tokens[-1]], size.batch, 4.0 * logits, last))
    return variables, losses, tape.op("Sum", losses, 1, 0.0, last)


def _backward(tape: _Tape, variables: list[int], loss: int) -> dict[int, int]:
    """Gradient of each variable: one op per differentiable input, sums where gradients meet."""
    parts: dict[int, list[int]] = {loss: [tape.op("Ones", [], 1, 0.0, tape.layers[loss])]}
    gradient: dict[int, int] = {}
    no_gradient = {INPUT, "Zeros"}
    for n in range(loss, -1, -1):
        if n not in parts:
            continue
        count, layer = tape.sizes[n] // 4, tape.layers[n]
        found = parts.pop(n)
        if len(found) > 1:
            found = [tape.op("AddN", found, count, float(count * len(found)), layer)]
        gradient[n] = found[0]
        inputs = [r for r in tape.reads[n] if tape.types[r] not in no_gradient]
        for r in inputs:
            # Gradients of a table are rows, as many as were looked up.
            rows = tape.types[n] == "Gather" and tape.types[r] == VARIABLE
            others = [v for v in tape.reads[n] if v != r] if len(tape.reads[n]) <= 2 else []
            out = tape.op(
                "Grad" + tape.types[n], [found[0], *others], count if rows else tape.sizes[r] // 4,
                tape.flops[n] / max(len(tape.reads[n]) - 1, 1) if others else 0.0, layer,
            )  # fmt: skip
            parts.setdefault(r, []).append(out)
    return {v: gradient[v] for v in variables if v in gradient}


def _update(tape: _Tape, gradients: dict[int, int]) -> None:
    """Clipping by the global norm, and Adam beside each variable."""
    norms = [tape.op("SquareSum", [g], 1, 0.0, tape.layers[v]) for v, g in gradients.items()]
    norm = tape.op("Sum", norms, 1)
    scale = tape.op("Div", [norm], 1)
    for v, g in gradients.items():
        count, layer = tape.sizes[v] // 4, tape.layers[v]
        slots = [tape.op(VARIABLE, [], count, 0.0, layer) for _ in range(2)]
        clipped = tape.op("Mul", [g, scale], count, 0.0, layer)
        adam = tape.op("Adam", [v, *slots, clipped], count, 4.0 * count, layer)
        tape.views[adam] = v
        for n in (v, *slots, adam):
            tape.together[n] = v


def unrolled_step(size: UnrolledSize, box: Box) -> StepProblem:
    """The training step of a network, in a box of `unrolled_box`."""
    tape = _Tape()
    variables, _, loss = _forward(tape, size)
    _update(tape, _backward(tape, variables, loss))
    reads = [sorted(set(r)) for r in tape.reads]
    moved = np.array(
        [tape.sizes[n] + sum(tape.sizes[r] for r in reads[n]) for n in range(len(reads))]
    )
    flops = np.array(tape.flops)
    free = np.isin(tape.types, [VARIABLE, INPUT, "Identity"])
    times = [np.maximum(flops / f, moved / b) + launch for f, b, launch in RATES.values()]
    count = len(reads)
    allowed = np.ones((count, box.num_devices), np.bool_)
    inputs = np.array([kind == INPUT for kind in tape.types])
    allowed[inputs] = False
    allowed[inputs, box.host] = True
    stays = np.array([kind == VARIABLE for kind in tape.types])
    return StepProblem(
        names=tuple(tape.names),
        op_types=tuple(tape.types),
        time_s=np.where(free[:, None], 0.0, np.stack(times, axis=1)),
        value_names=tuple(f"value{n}" for n in range(count)),
        value_bytes=np.array(tape.sizes, np.int64),
        producer=np.arange(count, dtype=np.int32),
        view_of=np.array([tape.views.get(n, -1) for n in range(count)], np.int32),
        stays=stays,
        kept=np.arange(count) == loss,
        read_begin=np.cumsum([0, *map(len, reads)]).astype(np.int64),
        reads=np.array([v for chosen in reads for v in chosen], np.int32),
        together=np.unique(tape.together, return_inverse=True)[1].astype(np.int32),
        allowed=allowed,
        layer=np.array(tape.layers, np.int32),
    )
