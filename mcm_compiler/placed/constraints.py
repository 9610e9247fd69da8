"""A user's pins and groups, as what a step problem allows."""

from __future__ import annotations

import difflib
import fnmatch
import re
from dataclasses import replace

import numpy as np

from mcm_compiler.arrays.types import Bools, Ints
from mcm_compiler.contracts.boxes.box import INPUT, Box, StepProblem, common_devices
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.placed.device_costs import unknown
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.text.units import count_text


def constrained(problem: StepProblem, box: Box, options: PlaceOptions) -> StepProblem:
    """The problem with what the user demands of it.

    Inputs of the step lie where they lie: no pattern moves them.

    Args:
        problem: as the target makes it.
        box: the devices.
        options: with pins, kinds and groups.

    Raises:
        CompileError: MCM-D070 for a device or kind that the box does not have, MCM-D071 for a
            pattern that fits no op, and MCM-D072 where an op is left without a device.
    """
    if not (options.pins or options.kinds or options.together):
        return problem
    devices = {name: np.array([d]) for d, name in enumerate(box.devices)}
    kinds = {name: box.of_kind(k) for k, name in enumerate(box.kinds)}
    faults: list[Diagnostic] = []
    wanted: list[tuple[str, Ints, Bools]] = []
    for option, what, pairs, known in (
        ("--pin", "device", options.pins, devices),
        ("--kind", "kind of device", options.kinds, kinds),
    ):
        for pattern, name in pairs:
            place = f"{option} {quote(f'{pattern}={name}')}"
            if name not in known:
                faults.append(unknown(what, name, known, f"option {place}"))
                continue
            mask = np.zeros(box.num_devices, np.bool_)
            mask[known[name]] = True
            ops = _matching(problem, pattern, option, faults)
            wanted.append((place, ops, mask))
    together = problem.together
    for pattern in options.together:
        together = _joined(together, _matching(problem, pattern, "--together", faults))
    CompileError.raise_any(faults)
    allowed = problem.allowed.copy()
    if options.together:
        allowed = common_devices(together, allowed)[together]
        _refuse_homeless(
            problem, allowed, np.arange(problem.num_ops, dtype=np.int32), "option --together"
        )
    for place, ops, mask in wanted:
        # Ops that run together go together.
        moved = np.flatnonzero(np.isin(together, together[ops])).astype(np.int32)
        allowed[moved] &= mask
        _refuse_homeless(problem, allowed, moved, f"option {place}")
    return replace(problem, together=together, allowed=allowed)


def _matching(problem: StepProblem, pattern: str, option: str, faults: list[Diagnostic]) -> Ints:
    """Ops whose names fit a pattern with `*` and `?`; a fault more where there is none."""
    fits = re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match
    found = [
        op
        for op, (name, kind) in enumerate(zip(problem.names, problem.op_types, strict=True))
        if kind != INPUT and fits(name)
    ]
    if not found:
        near = difflib.get_close_matches(pattern, problem.names, n=2)
        faults.append(
            Diagnostic(
                "MCM-D071",
                f"the pattern {quote(pattern)} fits none of {count_text(problem.num_ops, 'op')}",
                at=f"option {option}",
                hint=f"did you mean {' or '.join(map(quote, near))}?"
                if near
                else "patterns are of names of ops, with * and ?; placement.json of a placement "
                "without the option lists them",
            )
        )
    return np.array(found, np.int32)


def _joined(together: Ints, ops: Ints) -> Ints:
    """Groups with those of `ops` made one."""
    if not len(ops):
        return together
    merged = together.copy()
    merged[np.isin(together, together[ops])] = together[ops].min()
    return np.unique(merged, return_inverse=True)[1].astype(np.int32)


def _refuse_homeless(problem: StepProblem, allowed: Bools, ops: Ints, place: str) -> None:
    """Raises MCM-D072 where an op is left without a device."""
    homeless = ops[~allowed[ops].any(axis=1)]
    if not len(homeless):
        return
    op = int(homeless[0])
    more = f" and {len(homeless) - 1:,} more" if len(homeless) > 1 else ""
    raise CompileError.of(
        "MCM-D072",
        f"no device is left for {quote(problem.names[op])} of type "
        f"{quote(problem.op_types[op])}{more}",
        at=place,
    )
