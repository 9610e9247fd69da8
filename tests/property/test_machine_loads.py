"""The fast model of machines counts on each channel what the planned transfers carry over it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.target import Wire
from mcm_compiler.machines.machine import HOST
from mcm_hardware.package.transfer_plan import plan_transfers
from mcm_passes.mapping.machine.evaluation import MachineModel
from tests.generators.partition_problems import make_problem
from tests.generators.random_machines import machines

DEVICES = 4


@given(
    machines(DEVICES),
    st.lists(st.tuples(st.integers(0, 2), st.integers(3, 9)), min_size=1, max_size=12),
    st.lists(st.integers(0, DEVICES - 1), min_size=10, max_size=10),
)
@settings(max_examples=200)
def test_channels_carry_what_the_transfers_do(machine, edges, chip_of):
    problem = make_problem([1] * 10, sorted(set(edges)), chips=DEVICES, routing="strict")
    problem = replace(problem, given_machine=machine)
    wires: list[Wire] = []
    sizes: dict[str, int] = {}
    for t, name in enumerate(problem.tensor_names):
        sizes[name] = int(problem.tensor_bytes[t])
        maker = int(problem.tensor_producer[t])
        source = HOST if maker < 0 else chip_of[maker]
        readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        ends = sorted({chip_of[unit] for unit in readers.tolist()} - {source})
        if ends:
            wires.append(Wire(name, source, tuple(ends)))
        if maker >= 0 and problem.tensor_to_host[t]:
            wires.append(Wire(name, source, (HOST,)))
    carried = np.zeros(machine.num_channels, np.int64)
    for transfer in plan_transfers(wires, sizes, machine).transfers:
        route = machine.route(transfer.source, transfer.destination)
        carried[list(route)] += transfer.size_bytes
    found = MachineModel(problem).loads(np.array(chip_of, np.int32)).crossed
    assert found.tolist() == carried.tolist()
