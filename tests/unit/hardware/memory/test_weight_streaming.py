"""Weights that do not fit come from off-package memory, in stream buffers taken by turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.checking.memory_check import overlapping_buffers
from mcm_compiler.contracts.program import ChipProgram, LoweredProgram
from mcm_compiler.contracts.target import HOST, OFF_PACKAGE, ChipModel, Wire
from mcm_hardware.families.ring.ring_target import RingTarget, mcm36
from mcm_hardware.memory.weight_streaming import choose_streamed

WEIGHT_BYTES = 16 * 16 * 2


def streaming_package(sram_bytes: int) -> RingTarget:
    """A target of one chip."""
    spec = mcm36().spec
    chip = replace(spec.reference, sram_bytes=sram_bytes)
    return RingTarget(
        "tiny",
        replace(
            spec,
            chips=(chip,),
            physical=(0,),
            hop_latency_s=(),
            stream_bytes_per_s=1e9,
            stream_latency_s=1e-6,
        ),
        "",
    )


def lower_one(model: ir.Model, target: RingTarget) -> LoweredProgram:
    graph = model.graph
    inputs, outputs = (tuple(v.name for v in values) for values in (graph.inputs, graph.outputs))
    wires = [Wire(name, HOST, (0,)) for name in inputs]
    wires += [Wire(name, 0, (HOST,)) for name in outputs]
    return target.lower([ChipModel(0, model, inputs, outputs)], wires)


@pytest.fixture
def layers(model):
    def make(used: Sequence[int]) -> ir.Model:
        """A chain of products, product i with weight `used[i]`; a weight takes 512 bytes."""
        weights = ", ".join(
            f"float[16,16] w{i} = {{{','.join(['1'] * 256)}}}" for i in sorted(set(used))
        )
        names = [f"a{i}" for i in range(len(used) - 1)] + ["y"]
        steps = zip(["x", *names], names, used, strict=False)
        body = " ".join(f"{made} = MatMul({read}, w{i})" for read, made, i in steps)
        return model(f"g (float[1,16] x) => (float[1,16] y) <{weights}> {{ {body} }}")

    return make


def streamed(program: LoweredProgram) -> list[tuple[int, str, int]]:
    """`(index, tensor, reuses)` of transfers from off-package memory."""
    return [
        (index, t.tensor, t.reuses)
        for index, t in enumerate(program.transfers)
        if t.source == OFF_PACKAGE
    ]


def read_at(chip: ChipProgram, transfer: int) -> list[int]:
    return [at for at, kernel in enumerate(chip.kernels) if transfer in kernel.reads]


def test_what_fits_is_not_streamed(layers):
    program = lower_one(layers(range(6)), streaming_package(1 << 20))
    assert streamed(program) == []
    assert program.chips[0].weight_bytes == 6 * WEIGHT_BYTES


def test_two_buffers_are_taken_by_turns(layers):
    # Weights take 3072 bytes, channels and activations 384: 3456 in all.
    program = lower_one(layers(range(6)), streaming_package(2432))
    (chip,) = program.chips
    assert program.overflows == ()
    # Two buffers of 512 come in place of four weights of 512.
    assert streamed(program) == [(2, "w0", 4), (3, "w1", 5), (4, "w2", 2), (5, "w3", 3)]
    transfers = program.transfers[2:]
    assert {(t.destination, t.size_bytes, t.slots, t.after) for t in transfers} == {
        (0, WEIGHT_BYTES, 1, -1)
    }
    assert [read_at(chip, index) for index in range(2, 6)] == [[0], [1], [2], [3]]
    kinds = [(b.name, b.kind, b.size_bytes) for b in chip.buffers[:4]]
    assert kinds == [
        ("w4", "weight", 512),
        ("w5", "weight", 512),
        ("stream[0]", "stream", 512),
        ("stream[1]", "stream", 512),
    ]
    assert chip.weight_bytes == 2 * WEIGHT_BYTES
    assert chip.high_water_bytes == 3456 - 2 * 512 == 2432
    assert overlapping_buffers(chip.buffers) == []


def test_an_odd_number_of_turns_goes_on_in_the_next_inference(layers):
    program = lower_one(layers(range(6)), streaming_package(3456 - 512))
    # Of the inference before, the first waits for the one before the last, the second for the last.
    assert [reuses for _, _, reuses in streamed(program)] == [3, 4, 2]


def test_one_buffer_where_two_do_not_suffice(layers):
    program = lower_one(layers(range(6)), streaming_package(3456 - 5 * 512))
    assert program.overflows == ()
    assert [reuses for _, _, reuses in streamed(program)] == [7, 2, 3, 4, 5, 6]
    assert [b.name for b in program.chips[0].buffers if b.kind == "stream"] == ["stream[0]"]


def test_a_weight_that_does_not_fit_alone_stays_too_much(layers):
    program = lower_one(layers(range(6)), streaming_package(3456 - 5 * 512 - 64))
    assert streamed(program) == []
    (overflow,) = program.overflows
    assert (overflow.demand_bytes, overflow.levers) == (3456, ())


def test_weights_with_one_reader_go_first(layers):
    # w0 is read four times, and would come four times.
    program = lower_one(layers([0, 1, 0, 2, 0, 3, 0, 4]), streaming_package(5 * 512 + 384 - 512))
    assert [tensor for _, tensor, _ in streamed(program)] == ["w1", "w2", "w3"]
    program = lower_one(layers([0, 0, 1, 1, 2, 2, 3, 3]), streaming_package(4 * 512 + 384 - 512))
    assert [tensor for _, tensor, _ in streamed(program)] == ["w0", "w0", "w1", "w1", "w2", "w2"]
    assert [reuses for _, _, reuses in streamed(program)] == [6, 7, 2, 3, 4, 5]


def test_weights_of_one_kernel_share_a_buffer(model):
    ones = ",".join(["1"] * 256)
    names = [f"{kind}{i}" for i in range(4) for kind in "wv"]
    weights = ", ".join(f"float[16,16] {name} = {{{ones}}}" for name in names)
    values = ["a0", "a1", "a2", "a3", "y"]
    body = " ".join(f"{values[i + 1]} = Gemm({values[i]}, w{i}, v{i})" for i in range(4))
    source = model(f"g (float[16,16] a0) => (float[16,16] y) <{weights}> {{ {body} }}")
    total = 8 * 512 + 4 * 512 + 2 * 512
    program = lower_one(source, streaming_package(total - 1024))
    (chip,) = program.chips
    assert program.overflows == ()
    rows = streamed(program)
    for index, _, reuses in rows:
        (kernel,), (before,) = read_at(chip, index), read_at(chip, reuses)
        turns = sorted({read_at(chip, other)[0] for other, _, _ in rows})
        assert before == turns[turns.index(kernel) - 2]
    sizes = [b.size_bytes for b in chip.buffers if b.kind == "stream"]
    in_kernel = [
        sum(program.transfers[t].size_bytes for t in kernel.reads if t >= 2)
        for kernel in chip.kernels
    ]
    assert sizes == [max(in_kernel)] * 2


def demand(chosen: Sequence[int], size: np.ndarray, kernels: Sequence[Sequence[int]]) -> int:
    """Bytes that two stream buffers and the weights that stay take, less all weights."""
    largest = max(sum(int(size[w]) for w in row if w in chosen) for row in kernels)
    return 2 * largest - sum(int(size[w]) for w in chosen)


@pytest.mark.parametrize("seed", range(30))
def test_the_choice_fits_and_streams_little_more_than_the_least(seed):
    rng = np.random.default_rng(seed)
    count = 8
    size = 64 * rng.integers(1, 30, count)
    readers = [sorted(int(k) for k in rng.choice(10, int(rng.integers(1, 3)), False)) for _ in size]
    kernels = [[w for w in range(count) if k in readers[w]] for k in range(10)]
    excess = int(size.sum() * rng.uniform(0.1, 0.4))
    chosen, buffer_bytes = choose_streamed(
        size.astype(np.int64),
        np.cumsum([0, *map(len, readers)]).astype(np.int64),
        np.array([k for row in readers for k in row], np.int64),
        10,
        2,
        excess,
    )
    picked = np.flatnonzero(chosen).tolist()
    cost = {
        subset: sum(int(size[w]) * len(readers[w]) for w in subset)
        for length in range(1, count + 1)
        for subset in combinations(range(count), length)
        if demand(subset, size, kernels) <= -excess
    }
    if not picked:
        assert not cost
        return
    assert cost[tuple(picked)] <= 1.5 * min(cost.values())
    assert buffer_bytes == max(sum(int(size[w]) for w in row if chosen[w]) for row in kernels)


@pytest.mark.parametrize("sram_bytes", [2432, 3456 - 512, 3456 - 5 * 512])
def test_a_streaming_program_runs_no_faster_than_its_stream(layers, sram_bytes):
    target = streaming_package(sram_bytes)
    program = lower_one(layers(range(6)), target)
    result = target.simulator().run(program)
    stream_s = len(streamed(program)) * WEIGHT_BYTES / 1e9
    (link,) = [link for link in result.links if link.source == OFF_PACKAGE]
    assert link.busy_s == pytest.approx(stream_s)
    assert result.period_s >= stream_s * (1 - 1e-9)


def test_two_buffers_hide_more_of_the_stream_than_one(layers):
    target = streaming_package(2432)
    program = lower_one(layers(range(6)), target)
    one_buffer = [
        replace(t, reuses=2 + (i - 3) % 4) if t.source == OFF_PACKAGE else t
        for i, t in enumerate(program.transfers)
    ]
    slower = replace(program, transfers=tuple(one_buffer))
    run = target.simulator().run
    assert run(program).period_s < run(slower).period_s
