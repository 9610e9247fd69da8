"""Busy times of chips as processes: their file, and times of kernels that follow from them.

Each busy time is a sum of the times of the chip's kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, to_builtins

from mcm_compiler.arrays.types import Floats
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.contracts.chips import is_relay, kernels_of
from mcm_compiler.contracts.target import cost_model_on
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.measuring.kernel_times import KernelTime, kernel_name
from mcm_compiler.text.json_text import UnreadableError, parse_json, read_bounded, record_of

BUSY_SUMS = "busy sums"
"""How such times were measured."""

MAX_BYTES = 1 << 26

Seconds = Annotated[float, Meta(gt=0.0, le=1e6)]


@dataclass(frozen=True)
class Prior:
    """A kernel before anything is measured.

    Attributes:
        seconds: by the cost model of the target.
        kind: ONNX type of its longest op.
    """

    seconds: Annotated[float, Meta(ge=0.0, le=1e6)]
    kind: str


@dataclass(frozen=True)
class ChipBusy:
    """One chip.

    Attributes:
        chip: its number in the package.
        seconds: CPU time of its model in a round.
        repeat_error: by how much it differs between blocks of rounds, as a share.
        kernels: how often it runs each kernel in a round.
    """

    chip: Annotated[int, Meta(ge=0)]
    seconds: Seconds
    repeat_error: Annotated[float, Meta(ge=0.0)]
    kernels: Mapping[str, Annotated[int, Meta(ge=1)]]


@dataclass(frozen=True)
class BusyFile:
    """Busy times of one run.

    Attributes:
        model_sha256: hash of the source model.
        machine: facts of the machine that ran it.
        inferences: that were measured.
        kernels: all kernels that take time.
        chips: that ran.
        schema_version: of the file.
    """

    model_sha256: str
    machine: Mapping[str, str | int]
    inferences: Annotated[int, Meta(ge=1)]
    kernels: Mapping[str, Prior]
    chips: tuple[ChipBusy, ...]
    schema_version: Annotated[int, Meta(ge=1, le=1)] = 1

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return to_builtins(self)


def busy_of(
    opened: OpenedFolder, measured: Mapping[str, Any], machine: Mapping[str, str | int]
) -> BusyFile:
    """The busy times of a run of a folder.

    Args:
        opened: the folder.
        measured: data of `ring_data`.
        machine: facts of this machine.
    """
    priors: dict[str, Prior] = {}
    counts: dict[int, dict[str, int]] = {}
    for chip in opened.chips:
        costs = cost_model_on(opened.target, chip.chip)
        of_chip = counts.setdefault(chip.chip, {})
        for nodes in kernels_of(node for node in chip.model.graph if not is_relay(node)):
            if (seconds := costs.group_cost(nodes).seconds) > 0.0:
                name = kernel_name(nodes)
                of_chip[name] = of_chip.get(name, 0) + 1
                longest = max(nodes, key=lambda node: costs.group_cost([node]).seconds)
                priors.setdefault(name, Prior(seconds, longest.op_type))
    runs = {role.chip: role.runs for role in opened.manifest.placement}
    chips = tuple(
        ChipBusy(row["chip"], row["busy_s"], row["repeat_error"], counts[runs[row["chip"]]])
        for row in measured["chips"]
        if counts[runs[row["chip"]]]
    )
    sha256 = opened.manifest.model_sha256
    return BusyFile(sha256, dict(machine), measured["inferences"], priors, chips)


def read_busy(path: Path) -> BusyFile:
    """Reads what `mcmc run --write-busy` wrote.

    Raises:
        CompileError: MCM-C020 if it cannot be read, or a chip has a kernel that it does not list.
    """
    try:
        found = record_of(parse_json(read_bounded(path, MAX_BYTES)), BusyFile)
        unknown = {name for chip in found.chips for name in chip.kernels} - found.kernels.keys()
        if unknown:
            raise UnreadableError(f"it does not list the kernel {quote(min(unknown))} of a chip")
        if not any(chip.kernels for chip in found.chips):
            raise UnreadableError("it has no chip with a kernel")
    except UnreadableError as error:
        raise CompileError.of(
            "MCM-C020", f"the busy times cannot be read: {error}", at=str(path)
        ) from error
    return found


def times_of_busy(files: Sequence[BusyFile]) -> tuple[KernelTime, ...]:
    """Times of all kernels from the busy times of several runs, perhaps of different partitions.

    Args:
        files: of one model and one machine.
    """
    priors = {name: prior for one in files for name, prior in one.kernels.items()}
    names = [name for name, prior in priors.items() if prior.seconds > 0.0]
    sums = [chip for one in files for chip in one.chips if chip.kernels]
    counts = np.array([[chip.kernels.get(name, 0) for name in names] for chip in sums], float)
    seconds, covariance = updated_times(
        np.array([priors[name].seconds for name in names]),
        [priors[name].kind for name in names],
        counts,
        np.array([chip.seconds for chip in sums]),
        np.array([chip.repeat_error for chip in sums]),
    )
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    inferences = sum(one.inferences for one in files)
    return tuple(
        KernelTime(name, float(s), float(d / s), inferences, BUSY_SUMS)
        for name, s, d in zip(names, seconds, deviation, strict=True)
    )


COMMON, KIND, OWN = 0.3, 0.3, 0.5
"""Standard deviations of what is unknown before: a factor of all kernels, one of those of a kind,
and one of each kernel, as shares of its time. The last is as measured on 49 models of one machine:
0.52, weighted by time (docs/results/kernel-times.md)."""

LEAST_NOISE = 0.01
"""Of a busy time, as a share of it."""

_LEAST = 0.05
"""Share of its prior time that a kernel takes at least."""


def updated_times(
    prior_s: Floats, kinds: Sequence[str], counts: Floats, busy_s: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Gaussian update of the times of kernels by sums of them that were measured.

    Args:
        prior_s: `[kernels]`, times that a cost model gives; their level is taken from the sums.
        kinds: of kernels, such as op types; times of one kind tend to be off alike.
        counts: `[sums, kernels]`, how often a kernel is in a sum.
        busy_s: `[sums]`, what was measured.
        noise: `[sums]`, repeat error as a share.

    Returns:
        `[kernels]` times and `[kernels, kernels]` their covariance.
    """
    levels = np.log(busy_s / (counts @ prior_s))
    level = float(np.exp(levels.mean())) if levels.size else 1.0
    mean = level * prior_s
    alike = np.equal.outer(np.asarray(kinds), np.asarray(kinds))
    shares = COMMON**2 + KIND**2 * alike + OWN**2 * np.eye(len(mean))
    covariance = shares * np.outer(mean, mean)
    error = np.diag((np.maximum(noise, LEAST_NOISE) * busy_s) ** 2)
    gain = np.linalg.solve(counts @ covariance @ counts.T + error, counts @ covariance).T
    updated = mean + gain @ (busy_s - counts @ mean)
    return np.maximum(updated, _LEAST * mean), covariance - gain @ counts @ covariance
