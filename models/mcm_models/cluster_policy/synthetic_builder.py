"""Training steps put together op by op: forward ops, then their gradients, then updates."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE, Box, StepProblem


@dataclass(frozen=True, eq=False)
class DeviceRates:
    """Rates of one kind of device per second.

    Attributes:
        flops: of ops that compute.
        bytes_per_s: read and written.
        launch_s: that every op takes besides.
    """

    flops: float
    bytes_per_s: float
    launch_s: float


@dataclass(frozen=True)
class _Op:
    kind: str
    flops: float
    reads: tuple[int, ...]
    made: tuple[int, ...]


@dataclass(eq=False)
class StepBuilder:
    """Ops and values so far.

    Attributes:
        ops: in topological order.
        value_bytes: of each value.
        producer: op that makes each value.
        view_of: value in whose memory each value is, or -1.
        layer: of each op.
        together: pairs of ops that run together.
        variables: values of weights.
    """

    ops: list[_Op] = field(default_factory=list[_Op])
    value_bytes: list[int] = field(default_factory=list[int])
    producer: list[int] = field(default_factory=list[int])
    view_of: list[int] = field(default_factory=list[int])
    layer: list[int] = field(default_factory=list[int])
    together: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    variables: list[int] = field(default_factory=list[int])

    def op(
        self,
        kind: str,
        reads: tuple[int, ...],
        made: tuple[int, ...],
        flops: float = 0.0,
        layer: int = -1,
        view: int = -1,
    ) -> tuple[int, ...]:
        """Adds an op that makes values of this many bytes each, and returns the values.

        Args:
            kind: op type.
            reads: values.
            made: bytes of each value that it makes.
            flops: that it computes.
            layer: for experts' placements.
            view: value in whose memory the first value that it makes is, or -1.
        """
        first = len(self.value_bytes)
        values = tuple(range(first, first + len(made)))
        self.value_bytes += made
        self.producer += [len(self.ops)] * len(made)
        self.view_of += [view, *[-1] * (len(made) - 1)][: len(made)]
        self.ops.append(_Op(kind, flops, tuple(sorted(set(reads))), values))
        self.layer.append(layer)
        return values

    def variable(self, size: int, layer: int = -1) -> int:
        """A weight of this many bytes."""
        value = self.op(VARIABLE, (), (size,), layer=layer)[0]
        self.variables.append(value)
        return value

    def train(self, loss: int) -> None:
        """Adds the gradients of a value with respect to all weights, and Adam's updates.

        The gradient of an op takes as long as the op for each input, reads all that the op reads,
        and makes one value of the size of each input that leads to a weight.
        """
        forward = list(self.ops)
        weights = set(self.variables)
        needed = self._lead_to(weights)
        seed = self.op("Ones", (), (self.value_bytes[loss],), layer=self.layer[-1])[0]
        arriving: dict[int, list[int]] = {loss: [seed]}
        for n in range(len(forward) - 1, -1, -1):
            op = forward[n]
            given = [self._sum(arriving[v], self.layer[n]) for v in op.made if v in arriving]
            if not given or op.kind == VARIABLE:
                continue
            wanted = [v for v in op.reads if v in needed]
            for v in wanted:
                reads = (*given, *op.reads)
                size = (self.value_bytes[v],)
                made = self.op(f"{op.kind}Grad", reads, size, op.flops, self.layer[n])
                arriving.setdefault(v, []).append(made[0])
        for weight in self.variables:
            if weight in arriving:
                self._adam(weight, arriving[weight])

    def problem(self, box: Box, rates: tuple[DeviceRates, ...]) -> StepProblem:
        """The step, for a box with one entry of `rates` per kind. Inputs are the host's."""
        ops = self.ops
        moved = np.array(
            [sum(self.value_bytes[v] for v in (*op.reads, *op.made)) for op in ops], np.float64
        )
        flops = np.array([op.flops for op in ops])
        still = np.array([op.kind in {VARIABLE, INPUT} for op in ops])
        time = np.stack([_times(flops, moved, still, rate) for rate in rates], axis=1)
        allowed = np.ones((len(ops), box.num_devices), np.bool_)
        inputs = np.flatnonzero([op.kind == INPUT for op in ops])
        allowed[inputs] = False
        allowed[inputs, box.host] = True
        together = np.arange(len(ops))
        for one, other in self.together:
            together[other] = together[one]
        return StepProblem(
            names=tuple(f"{op.kind}_{n}" for n, op in enumerate(ops)),
            op_types=tuple(op.kind for op in ops),
            time_s=time,
            value_names=tuple(f"v{v}" for v in range(len(self.value_bytes))),
            value_bytes=np.array(self.value_bytes, np.int64),
            producer=np.array(self.producer, np.int32),
            view_of=np.array(self.view_of, np.int32),
            stays=np.array([ops[n].kind == VARIABLE for n in self.producer], np.bool_),
            kept=np.zeros(len(self.value_bytes), np.bool_),
            read_begin=np.cumsum([0, *(len(op.reads) for op in ops)]).astype(np.int64),
            reads=np.array([v for op in ops for v in op.reads], np.int32),
            together=np.unique(together, return_inverse=True)[1].astype(np.int32),
            allowed=allowed,
            layer=np.array(self.layer, np.int32),
        )

    def _lead_to(self, weights: set[int]) -> set[int]:
        """Values that depend on weights, and these."""
        needed = set(weights)
        for op in self.ops:
            if any(v in needed for v in op.reads):
                needed.update(op.made)
        return needed

    def _sum(self, values: list[int], layer: int) -> int:
        if len(values) == 1:
            return values[0]
        size = (self.value_bytes[values[0]],)
        total = self.op("AddN", tuple(values), size, layer=layer)[0]
        values[:] = [total]
        return total

    def _adam(self, weight: int, gradients: list[int]) -> None:
        maker = self.producer[weight]
        layer, size = self.layer[maker], self.value_bytes[weight]
        gradient = self._sum(gradients, layer)
        slots = [self.op(VARIABLE, (), (size,), layer=layer)[0] for _ in range(2)]
        self.op("Adam", (weight, gradient, *slots), (size,), layer=layer, view=weight)
        for value in slots:
            self.together.append((maker, self.producer[value]))
        self.together.append((maker, len(self.ops) - 1))


def _times(flops: Floats, moved: Floats, still: np.ndarray, rates: DeviceRates) -> Floats:
    """Roofline of one kind of device, launches included."""
    busy = np.maximum(flops / rates.flops, moved / rates.bytes_per_s) + rates.launch_s
    return np.where(still, 0.0, busy)
