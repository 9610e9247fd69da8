"""Models whose memory is tight, and a package for them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from mcm_hardware.families.ring.ring_target import RingTarget

PACKAGE = """
family = "ring"
[package]
num_chips = 4
host_io = "any"
channel_slots = 2
[chip]
sram_mib = {sram_mib}
sram_bandwidth_gb_per_s = 256
buffer_alignment_bytes = {alignment}
launch_overhead_ns = 150
[chip.mac_array]
rows = 64
cols = 64
clock_mhz = 500
[chip.vector_unit]
lanes = 128
clock_mhz = 500
[link]
bandwidth_gb_per_s = 32
hop_latency_us = 1.0
[host]
bandwidth_gb_per_s = 32
latency_us = 1.0
[storage_bits]
FLOAT = 16
INT64 = 32
"""


def weight(name, *shape):
    numbers = np.random.default_rng(0).standard_normal(shape) * 0.05
    return numpy_helper.from_array(numbers.astype(np.float32), name)


def shape_weight(name, *shape):
    return numpy_helper.from_array(np.array(shape, np.int64), name)


def onnx_model(nodes, inputs, outputs, weights):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "tight",
        [info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        weights,
    )
    imports = [helper.make_opsetid("", 17)]
    return ir.from_proto(helper.make_model(graph, opset_imports=imports, ir_version=8))


def package(sram_mib, alignment):
    """Four chips with so much memory, and buffers at multiples of so many bytes."""
    text = PACKAGE.format(sram_mib=sram_mib, alignment=alignment)
    return RingTarget.from_text("tight", text)


def coarse_products():
    """Two large and nine small products."""
    nodes = [
        helper.make_node("MatMul", ["x", "wa"], ["a"], name="big0"),
        helper.make_node("MatMul", ["a", "wb"], ["m"], name="big1"),
    ]
    weights, last = [weight("wa", 64, 1024), weight("wb", 1024, 64)], "m"
    for i in range(9):
        weights.append(weight(f"w{i}", 64, 64))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"], name=f"mm{i}"))
        last = f"m{i}"
    return onnx_model(nodes, {"x": [64, 64]}, {last: [64, 64]}, weights)


def fine_ops():
    """One product and sixty ops with small weights."""
    nodes = [helper.make_node("MatMul", ["x", "wa"], ["b"], name="big")]
    weights, last = [weight("wa", 64, 64)], "b"
    for i in range(60):
        weights.append(weight(f"w{i}", 64))
        op = "Add" if i % 2 else "Mul"
        nodes.append(helper.make_node(op, [last, f"w{i}"], [f"m{i}"], name=f"n{i}"))
        last = f"m{i}"
    return onnx_model(nodes, {"x": [256, 64]}, {last: [256, 64]}, weights)


def gated_convolutions(*, view):
    """Convolutions whose tensors peak at 60 MiB; the first is read again at the end."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["S"], pads=[1] * 4, name="first"),
        node("Conv", ["S", "w1"], ["T1"], pads=[1] * 4, name="second"),
        node("Conv", ["T1", "w2"], ["T2"], pads=[1] * 4, name="third"),
        node("GlobalAveragePool", ["T2"], ["p"], name="pool"),
        node("Reshape", ["p", "s1"], ["q"], name="flat"),
        node("MatMul", ["q", "w3"], ["g"], name="gate"),
    ]
    weights = [
        weight("w0", 60, 1, 3, 3),
        weight("w1", 40, 60, 3, 3),
        weight("w2", 20, 40, 3, 3),
        weight("w3", 20, 60),
        shape_weight("s1", 1, 20),
    ]
    if view:
        nodes += [
            node("Reshape", ["S", "s2"], ["R"], name="view"),
            node("MatMul", ["g", "R"], ["y"], name="last"),
        ]
        weights.append(shape_weight("s2", 60, 512 * 512))
        shape = [1, 512 * 512]
    else:
        nodes += [
            node("Reshape", ["g", "s2"], ["k"], name="kernel"),
            node("Conv", ["S", "k"], ["y"], name="last"),
        ]
        weights.append(shape_weight("s2", 1, 60, 1, 1))
        shape = [1, 1, 512, 512]
    return onnx_model(nodes, {"x": [1, 1, 512, 512]}, {"y": shape}, weights)


def falling_convolutions(size=256, channels=(1, 16, 128, 64, 8)):
    """A chain of convolutions: the largest tensors are read once, and then free."""
    nodes, weights, last = [], [], "x"
    for i, (many, few) in enumerate(pairwise(channels)):
        weights.append(weight(f"w{i}", few, many, 3, 3))
        nodes.append(
            helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1] * 4, name=f"conv{i}")
        )
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], name=f"relu{i}"))
        last = f"r{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"], name="pool"))
    return onnx_model(
        nodes, {"x": [1, channels[0], size, size]}, {"y": [1, channels[-1], 1, 1]}, weights
    )
