"""Small random models on small chips: tight memory, aligned buffers, views."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from onnx import ModelProto, TensorProto, helper, numpy_helper

from mcm_compiler.options import CompileOptions
from mcm_hardware.families.ring.ring_target import RingTarget

PACKAGE = """
family = "ring"
[package]
num_chips = {chips}
host_io = "{host_io}"
channel_slots = {slots}
spill = "{spill}"
[chip]
sram_mib = {sram_mib!r}
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
bandwidth_gb_per_s = 8
hop_latency_us = 1.0
[host]
bandwidth_gb_per_s = 8
latency_us = 1.0
[storage_bits]
FLOAT = 16
INT64 = 32
{more}
"""

OFF_PACKAGE = "[off_package_memory]\nbandwidth_gb_per_s = 4\nlatency_us = 1.0"

ROOMY_BYTES = 1 << 30


@dataclass(frozen=True)
class Case:
    """One model on one package.

    Attributes:
        seed: what it was drawn from.
        model: 4 to 7 ops.
        package: numbers of the description, by key.
        options: how it is compiled.
        share: SRAM of a chip, as a share of what the least demanding assignment plans.
    """

    seed: int
    model: ir.Model
    package: dict[str, object]
    options: CompileOptions
    share: float

    def target(self, sram_bytes: int) -> RingTarget:
        """The package with chips of so much memory."""
        text = PACKAGE.format(**self.package, sram_mib=sram_bytes / (1 << 20))
        return RingTarget.from_text("oracle", text)


def draw_case(seed: int) -> Case:
    """A case; the same for the same seed."""
    rng = np.random.default_rng([17, seed])
    spill = "stream" if rng.random() < 0.12 else "none"
    package: dict[str, object] = {
        "chips": int(rng.integers(2, 4)),
        "host_io": str(rng.choice(["any", "any", "any", "ends"])),
        "slots": int(rng.choice([1, 2, 2, 2, 3])),
        "spill": spill,
        "more": OFF_PACKAGE if spill == "stream" else "",
        "alignment": int(rng.choice([64, 64, 1024, 4096, 16384])),
    }
    fuse = str(rng.choice(["fuse", "fuse{max_group=1}"]))
    options = CompileOptions(
        passes=f"{fuse},annotate_cost",
        routing="strict" if rng.random() < 0.25 else "relay",
        replicas=1,
    )
    share = float(rng.choice([0.8, 0.9, 0.97, 1.0, 1.0, 1.02, 1.1, 1.25]))
    return Case(seed, ir.from_proto(_model(rng)), package, options, share)


def for_compile(case: Case) -> CompileOptions:
    """Options that go on to the partition, as `-O2` finds it."""
    return replace(case.options, passes=f"{case.options.passes},partition")


def _model(rng: np.random.Generator) -> ModelProto:
    sizes = (16, 32, 64)
    nodes, weights = [], []
    values: list[tuple[str, tuple[int, int]]] = []
    inputs = [("x", (int(rng.choice(sizes)), int(rng.choice(sizes))))]
    if rng.random() < 0.3:
        inputs.append(("x2", inputs[0][1]))
    values += inputs
    read: set[str] = set()

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        numbers = rng.standard_normal(shape).astype(np.float32)
        weights.append(numpy_helper.from_array(numbers, name))
        return name

    for k in range(int(rng.integers(4, 8))):
        at = len(values) - 1 - int(min(rng.geometric(0.6) - 1, len(values) - 1))
        source, shape = values[at]
        rows, cols = shape
        op = str(rng.choice(["Relu", "MatMul", "MatMul", "Add", "Reshape", "Reshape", "Identity"]))
        name, operands = f"v{k}", [source]
        if op == "MatMul":
            wide = int(rng.choice(sizes))
            operands.append(weight(cols, wide))
            shape = (rows, wide)
        elif op == "Add":
            same = [v for v, other in values if other == shape and v != source]
            operands.append(str(rng.choice(same)) if same else weight(*shape))
        elif op == "Reshape":
            shape = (cols, rows) if rows != cols else (rows * 2, cols // 2)
            constant = numpy_helper.from_array(np.array(shape, np.int64), f"s{k}")
            weights.append(constant)
            operands.append(constant.name)
        nodes.append(helper.make_node(op, operands, [name], name=f"n{k}"))
        read.update(operands)
        values.append((name, shape))
    made = values[len(inputs) :]
    outputs = [v for v in made if v[0] not in read or rng.random() < 0.1]
    graph = helper.make_graph(
        nodes,
        "oracle",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs if n in read],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
