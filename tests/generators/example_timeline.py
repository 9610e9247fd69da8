"""A small program with every kind of transfer, and when it ran; made by hand."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.program import (
    Buffer,
    ChipProgram,
    Hop,
    Kernel,
    LoweredProgram,
    Timeline,
    Transfer,
)

PERIOD_S = 40e-6


def example_program() -> LoweredProgram:
    """Two chips: x -> [a, b] -> h -> [c, d, e] -> y.

    Weights of c come from memory, and c and e both read h.
    """
    transfers = (
        Transfer("x", -1, 0, 3000, 2),
        Transfer("h", 0, 2, 2000, 2),
        Transfer("w", -2, 2, 8000, 1),
        Transfer("y", 2, -1, 500, 2),
        Transfer("h", 2, -1, 2000, 2, after=1),
    )
    first = ChipProgram(
        chip=0,
        kernels=(
            Kernel("a", ("a",), 10e-6, (0,), (), "array", 1e-6),
            Kernel("b", ("b/1", "b/2"), 20e-6, (), (1,), "vector", 1e-6),
        ),
        buffers=(
            Buffer("w_a", "weight", 0, 1000, 0, 1),
            Buffer("x[0]", "receive", 1000, 3000, 0, 1),
            Buffer("x[1]", "receive", 4000, 3000, 0, 1),
            Buffer("h[0]", "send", 7000, 2000, 0, 1),
            Buffer("h[1]", "send", 9000, 2000, 0, 1),
            Buffer("t", "activation", 11000, 700, 0, 1),
            Buffer("u", "activation", 11700, 300, 1, 1),
        ),
        high_water_bytes=12000,
        weight_bytes=1000,
    )
    second = ChipProgram(
        chip=2,
        kernels=(
            Kernel("c", ("c",), 12e-6, (1, 2), (), "array"),
            Kernel("d", ("d",), 0.0, (), (), "none"),
            Kernel("e", ("e",), 8e-6, (1,), (3,), "memory"),
        ),
        buffers=(
            Buffer("h[0]", "receive", 0, 2000, 0, 2),
            Buffer("h[1]", "receive", 2000, 2000, 0, 2),
            Buffer("w", "stream", 4000, 8000, 0, 0),
            Buffer("s", "activation", 4000, 100, 1, 2),
            Buffer("y[0]", "send", 12000, 500, 0, 2),
            Buffer("y[1]", "send", 12500, 500, 0, 2),
        ),
        high_water_bytes=13000,
        weight_bytes=0,
    )
    return LoweredProgram("example", (first, second), transfers)


def example_timeline(inferences: int = 5) -> Timeline:
    """Every inference starts `PERIOD_S` after the one before; the link is stored and forwarded."""
    hops = (
        Hop(0, -1, 0, 2e-6, 1e-6),
        Hop(1, 0, 1, 3e-6, 1e-6),
        Hop(1, 1, 2, 3e-6, 1e-6),
        Hop(2, -2, 2, 9e-6, 0.0),
        Hop(3, 2, -1, 1e-6, 1e-6),
        Hop(4, 2, -1, 2e-6, 1e-6),
    )
    kernels = np.array([3e-6, 13e-6, 41e-6, 53e-6, 53e-6])
    starts = np.array([0.0, 33e-6, 37e-6, 30e-6, 61e-6, 41e-6])
    later = PERIOD_S * np.arange(inferences)[:, None]
    return Timeline(example_program(), hops, kernels + later, starts + later)
