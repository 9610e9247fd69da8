"""What `mcmc simulate` tells of a placed step: ops, copies, and the chain that takes its time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepTrace
from mcm_compiler.text.units import seconds_text

MOST_OPS = 12
"""Ops of the chain that are listed."""


def step_data(problem: StepProblem, box: Box, trace: StepTrace) -> dict[str, Any]:
    """The JSON form: the chain in order, and what each device does.

    Args:
        problem: what was placed.
        box: the devices.
        trace: what happens when.
    """
    time = trace.end_s - trace.start_s
    chain = trace.critical_ops
    return {
        "seconds": float(max(trace.end_s.max(initial=0.0), trace.copy_end_s.max(initial=0.0))),
        "copies": len(trace.copy_value),
        "copied_bytes": int(problem.value_bytes[trace.copy_value].sum()),
        "chain_ops_s": float(time[chain].sum()),
        "devices": [
            {
                "device": name,
                "busy_s": float(time[trace.device_of == d].sum()),
                "copies": int(np.count_nonzero(trace.copy_from == d)),
                "copy_s": float(
                    (trace.copy_end_s - trace.copy_start_s)[trace.copy_from == d].sum()
                ),
                "peak_bytes": int(trace.peak_bytes[d]),
            }
            for d, name in enumerate(box.devices)
        ],
        "chain": [
            {
                "op": problem.names[op],
                "op_type": problem.op_types[op],
                "device": box.devices[trace.device_of[op]],
                "start_s": float(trace.start_s[op]),
                "end_s": float(trace.end_s[op]),
            }
            for op in chain.tolist()
        ],
    }


def chain_rows(problem: StepProblem, box: Box, trace: StepTrace) -> list[list[str]]:
    """The longest ops of the chain, in the order in which they run, below a head."""
    chain = trace.critical_ops
    time = (trace.end_s - trace.start_s)[chain]
    longest = np.sort(np.argsort(-time, kind="stable")[:MOST_OPS])
    rows = [["start", "takes", "device", "type", "op"]]
    for place in longest.tolist():
        op = int(chain[place])
        rows.append(
            [
                seconds_text(float(trace.start_s[op])),
                seconds_text(float(time[place])),
                box.devices[int(trace.device_of[op])],
                problem.op_types[op],
                problem.names[op],
            ]
        )
    return rows
