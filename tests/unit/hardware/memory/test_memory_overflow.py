"""What lowering says of chips that do not fit, and what would help them."""

from __future__ import annotations

import json
from dataclasses import replace

import onnx_ir as ir

from mcm_compiler.contracts.program import Lever, LoweredProgram
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.graph.states import StatePair
from mcm_compiler.text.json_text import record_of
from mcm_hardware.families.ring.ring_target import RingTarget, mcm36

KIB = 1024


def package(*sram_bytes: int) -> RingTarget:
    """A target with these chips."""
    spec = mcm36().spec
    chips = tuple(replace(spec.reference, sram_bytes=size) for size in sram_bytes)
    hops = spec.hop_latency_s[: len(chips) - 1]
    places = tuple(range(len(chips)))
    return RingTarget("tiny", replace(spec, chips=chips, physical=places, hop_latency_s=hops), "")


def lower_one(model: ir.Model, target: RingTarget) -> LoweredProgram:
    graph = model.graph
    inputs, outputs = (tuple(v.name for v in values) for values in (graph.inputs, graph.outputs))
    wires = [Wire(name, HOST, (0,)) for name in inputs]
    wires += [Wire(name, 0, (HOST,)) for name in outputs]
    return target.lower([ChipModel(0, model, inputs, outputs)], wires)


def actions(program: LoweredProgram) -> list[str]:
    return [lever.action for lever in program.overflows[0].levers]


def test_what_does_not_fit_is_data(model):
    source = model("g (float[1024] x) => (float[1024] y) { a = Relu(x) y = Neg(a) }")
    program = lower_one(source, package(2 * KIB))
    (overflow,) = program.overflows
    assert (overflow.chip, overflow.limit_bytes, overflow.demand_bytes) == (0, 2048, 5 * 2048)
    assert (overflow.weight_bytes, overflow.channel_bytes) == (0, 4 * 2048)
    assert overflow.activation_bytes == 2048
    assert overflow.largest[0] == ("x[0]", 2048)
    assert len(overflow.largest) == 5
    assert overflow.levers == ()
    assert record_of(json.loads(json.dumps(program.to_dict())), LoweredProgram) == program


def test_other_chips_may_take_what_is_too_much(model):
    source = model("g (float[1024] x) => (float[1024] y) { a = Relu(x) y = Neg(a) }")
    program = lower_one(source, package(8 * KIB, 3 * KIB))
    assert program.overflows[0].levers == (
        Lever("another split: the other chips have 3.0 KiB free", 2 * KIB),
    )
    # Where they have no room, nothing is promised.
    assert lower_one(source, package(8 * KIB, KIB)).overflows[0].levers == ()


def test_an_op_with_a_large_weight_may_be_sharded(model):
    text = (
        "g (float[1,64] x) => (float[1,64] y) <float[64,64] w = {WEIGHT}> { y = MatMul(x, w) }"
    ).replace("WEIGHT", ",".join("1" for _ in range(4096)))
    # 8 KiB of weight and 512 bytes of channels.
    program = lower_one(model(text), package(6 * KIB, KIB, KIB, KIB))
    assert program.overflows[0].weight_bytes == 8 * KIB
    assert actions(program) == [
        "another split: the other chips have 3.0 KiB free",
        "shard op 'MatMul_0' in 2: its weight takes 8.0 KiB",
    ]
    # Two pieces would still be too large.
    program = lower_one(model(text), package(4 * KIB, KIB, KIB, KIB))
    assert actions(program) == ["shard op 'MatMul_0' in 3: its weight takes 8.0 KiB"]
    # Nothing suffices, so that what helps is named.
    program = lower_one(model(text), package(2 * KIB, KIB, KIB))
    assert actions(program) == ["shard op 'MatMul_0' in 3: its weight takes 8.0 KiB"]
    (lever,) = program.overflows[0].levers
    assert lever.frees_bytes < program.overflows[0].demand_bytes - 2 * KIB


def test_states_of_fewer_sequences_may_fit(model):
    text = "g (float[255] p, float[1] x) => (float[256] q) { q = Concat <axis = 0> (p, x) }"
    chip = ChipModel(0, model(text), ("p", "x"), ("q",), (StatePair("p", "q"),), 7)
    target = package(3 * KIB)
    program = target.lower([chip], [Wire("x", HOST, (0,))])
    (overflow,) = program.overflows
    # Two buffers of 64 bytes for x.
    assert (overflow.state_bytes, overflow.channel_bytes) == (7 * 512, 128)
    assert overflow.levers == (Lever("hold fewer sequences: their states take 3.0 KiB", 6 * 512),)
    fitting = target.lower([replace(chip, sequences=5)], [Wire("x", HOST, (0,))])
    assert fitting.overflows == ()
    assert (fitting.sequences, fitting.chips[0].state_bytes) == (5, 512)
    (held,) = (b for b in fitting.chips[0].buffers if b.kind == "state")
    assert (held.name, held.size_bytes) == ("p", 5 * 512)
    # The present lies where the state does.
    assert {b.kind for b in fitting.chips[0].buffers} == {"state", "receive"}


def test_relays_may_be_what_is_too_much(model):
    source = model(
        "g (float[1024] x, float[8] z) => (float[1024] r, float[8] y)"
        " { r = Identity(x) y = Relu(z) }"
    )
    program = package(2 * KIB).lower(
        [ChipModel(0, source, ("x", "z"), ("r", "y"))],
        [
            Wire("x", HOST, (0,)),
            Wire("z", HOST, (0,)),
            Wire("r", 0, (HOST,)),
            Wire("y", 0, (HOST,)),
        ],
    )
    assert program.overflows[0].levers == (
        Lever("relay fewer tensors: 1 relay takes 8.0 KiB", 8 * KIB),
    )


def test_weights_may_be_streamed_where_the_target_learns_to(model):
    weights = ", ".join(f"float[16,16] w{i} = {{{','.join('1' * 256)}}}" for i in range(6))
    body = "a0 = MatMul(x, w0) " + "".join(f"a{i} = MatMul(a{i - 1}, w{i}) " for i in range(1, 5))
    source = model(
        f"g (float[1,16] x) => (float[1,16] y) <{weights}> {{ {body} y = MatMul(a4, w5) }}"
    )
    program = lower_one(source, package(3 * KIB))
    assert program.overflows[0].weight_bytes == 3 * KIB
    assert actions(program) == [
        'stream weights (spill = "stream" in the target): 1.5 KiB per inference'
    ]
