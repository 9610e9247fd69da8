"""The files of a certificate: a head in JSON, and arrays in the safetensors format.

A certificate may come from anywhere. It is read as data only: sizes are compared with limits before
anything is read, types and ranges before anything is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import read_json
from mcm_compiler.certificate import other_placements
from mcm_compiler.certificate.claims import Certificate, Claim, ClaimScope
from mcm_compiler.certificate.stored_problem import (
    SCHEMA_VERSION,
    Array,
    MalformedError,
    problem_from_arrays,
    problem_to_arrays,
    put_texts,
    texts,
    vector,
)
from mcm_compiler.contracts import objectives
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import Routing
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT
from mcm_compiler.text import json_text
from mcm_compiler.text.json_text import Amount, Count, Index, UnreadableError, record_of


@dataclass(frozen=True)
class ProvenRow:
    """Proof of one number of replicas.

    Attributes:
        pipelines: equal pipelines side by side.
        devices_each: devices that each of them may use.
        value: of one of them no placement has a smaller value; null where none is said to be valid.
        proof: kind of argument; empty where there is none.
        argument: the argument in words.
    """

    pipelines: Count
    devices_each: Count
    value: Amount | None
    proof: str
    argument: str


@dataclass(frozen=True)
class ObjectiveRow:
    """Request, value of the placement, and the claim about all others.

    Attributes:
        kind: what was to be small.
        max_latency_s: the latest that one inference may be answered, or null.
        throughput_per_s: inferences per second that had to be reached, or null.
        value: value of the placement: seconds or chips of the package, joules of an inference.
        bound: no placement has a smaller value.
        latency_s: when one inference is answered by an empty package; null if unknown.
        proven: of each number of replicas that could be chosen.
    """

    kind: objectives.ObjectiveKind
    max_latency_s: Amount | None
    throughput_per_s: Amount | None
    value: Amount
    bound: Amount
    latency_s: Amount | None
    proven: tuple[ProvenRow, ...]


def objective_row(figures: objectives.ObjectiveFigures | None) -> ObjectiveRow | None:
    """The figures as a row of the head; None where there are none."""
    if figures is None:
        return None
    objective = figures.objective
    return ObjectiveRow(
        objective.kind,
        objective.max_latency_s,
        objective.throughput_per_s,
        figures.value,
        figures.bound,
        figures.latency_s,
        tuple(
            ProvenRow(
                one.replicas,
                one.chips_each,
                one.value if math.isfinite(one.value) else None,
                one.proof,
                one.argument,
            )
            for one in figures.proven
        ),
    )


def objective_figures(row: ObjectiveRow | None) -> objectives.ObjectiveFigures | None:
    """Read what `objective_row` stored.

    Raises:
        MalformedError: where it is no objective, or the plain period.
    """
    if row is None:
        return None
    objective = objectives.Objective(row.kind, row.max_latency_s, row.throughput_per_s)
    faults = objectives.objective_faults(row.kind, row.max_latency_s, row.throughput_per_s)
    if faults or objective.plain:
        raise MalformedError(f"the objective is none: {faults[0] if faults else 'the period'}")
    proven = tuple(
        objectives.ShareBound(
            one.pipelines,
            one.devices_each,
            math.inf if one.value is None else one.value,
            one.proof,
            one.argument,
        )
        for one in row.proven
    )
    return objectives.ObjectiveFigures(objective, row.value, row.bound, row.latency_s, proven)


def channel_arrays(problem: PartitionProblem) -> dict[str, Array]:
    """`[K]` each: source and destination of every channel, its rate, and its delay.

    The host is -1, memory outside the package -2; further places as in
    `mcm_compiler.machines.machine`.
    """
    if not problem.on_ring:
        machine = problem.machine
        return {
            "channel.source": np.ascontiguousarray(machine.channel_ends[:, 0], np.int32),
            "channel.destination": np.ascontiguousarray(machine.channel_ends[:, 1], np.int32),
            "channel.bytes_per_s": machine.channel_bytes_per_s,
            "channel.latency_s": machine.channel_latency_s,
        }
    limits = problem.limits
    chips, last, delays = limits.num_chips, limits.last_chip, limits.latencies_s
    rows = [(c, c + 1, limits.link_bytes_per_s, delay) for c, delay in enumerate(delays)]
    for device in sorted({0, last}) if limits.at_ends else range(chips):
        rows.append((HOST, device, limits.host_bytes_per_s, limits.host_latency_s))
        rows.append((device, HOST, limits.host_bytes_per_s, limits.host_latency_s))
    if limits.stream_bytes_per_s > 0.0:
        rows += [(OFF_PACKAGE, c, limits.stream_bytes_per_s, 0.0) for c in range(chips)]
    if total := limits.host_total_bytes_per_s:
        rows += [(HOST_ROOT, HOST, total, 0.0), (HOST, HOST_ROOT, total, 0.0)]
    if total := limits.stream_total_bytes_per_s:
        rows.append((OFF_PACKAGE_ROOT, OFF_PACKAGE, total, 0.0))
    source, destination, rate, latency = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {
        "channel.source": np.array(source, np.int32),
        "channel.destination": np.array(destination, np.int32),
        "channel.bytes_per_s": np.array(rate, np.float64),
        "channel.latency_s": np.array(latency, np.float64),
    }


MAX_ARRAY_BYTES = 1 << 29
"""Size of the arrays' file; a model of 100,000 ops has a tenth of it."""


@dataclass(frozen=True)
class PlacementRow:
    """Figures of the placement whose devices are the array `placement.device`.

    Attributes:
        period_s: seconds between inferences of one pipeline under `problem_model`.
    """

    period_s: Amount


@dataclass(frozen=True)
class CertificateHead:
    """Content of `certificate.json`, in its order; the arrays are in `certificate.safetensors`.

    Attributes:
        schema_version: of this file.
        problem_model: name of the model that says what a placement costs.
        cost_model: name of the model that the seconds of units come from.
        routing: rule for long dependencies.
        machine: numbers of the devices and their channels by name, without those that are arrays.
        scope: over what the claims range.
        placement: figures of the placement.
        claims: at most one about each subject.
        pins: names or patterns and devices that the user wanted.
        considered: other numbers of pipelines that were looked at, the chosen one included.
        learned: what learned search added, or null.
        objective: what was asked for, and what is claimed of it; missing where that is the plain
            period.
        divisions: bound over all divisions of the kernels; missing where there is none.
    """

    schema_version: Literal[1, 2]
    problem_model: str
    cost_model: str
    routing: Routing
    machine: dict[str, bool | int | float | str]
    scope: ClaimScope
    placement: PlacementRow
    claims: tuple[Claim, ...]
    pins: tuple[tuple[str, Index], ...]
    considered: tuple[other_placements.ConsideredRow, ...]
    learned: other_placements.LearnedRow | None
    objective: ObjectiveRow | None = None
    divisions: other_placements.DivisionRow | None = None


def write_certificate(folder: Path, certificate: Certificate) -> None:
    """Writes head and arrays; equal certificates give equal bytes."""
    from safetensors.numpy import save

    arrays, machine = problem_to_arrays(certificate.problem)
    arrays |= channel_arrays(certificate.problem)
    arrays["placement.device"] = np.ascontiguousarray(certificate.placement, np.int32)
    for name, rows in (("copy", certificate.copies), ("forward", certificate.forwards)):
        put_texts(arrays, f"{name}.of", [row[0] for row in rows])
        put_texts(arrays, f"{name}.node", [row[1] for row in rows])
        arrays[f"{name}.device"] = np.array([row[2] for row in rows], np.int32)
    head = CertificateHead(
        schema_version=SCHEMA_VERSION,
        problem_model=certificate.problem_model,
        cost_model=certificate.cost_model,
        routing=certificate.problem.routing,
        machine=machine,
        scope=certificate.scope,
        placement=PlacementRow(certificate.period_s),
        claims=certificate.claims,
        pins=certificate.pins,
        considered=other_placements.considered_to_arrays(certificate.considered, arrays),
        learned=other_placements.learned_to_arrays(certificate.learned, arrays),
        objective=objective_row(certificate.figures),
        divisions=other_placements.divisions_to_arrays(certificate.divisions, arrays),
    )
    data = asdict(head)
    for name in ("objective", "divisions"):
        if data[name] is None:
            del data[name]
    if head.scope.round == 1:
        del data["scope"]["round"]
    json_text.write(folder / layout.CERTIFICATE, data)
    (folder / layout.CERTIFICATE_ARRAYS).write_bytes(save(arrays))


def read_certificate(folder: Path) -> Certificate:
    """Reads what `write_certificate` wrote.

    Raises:
        CompileError: MCM-A020 if a file is missing, cut off, too large, of another schema version,
            or holds something else than a certificate.
    """
    path = folder / layout.CERTIFICATE
    try:
        head = read_json(path)
    except CompileError as error:
        raise _unusable(path, error.diagnostics[0].message) from error
    if (version := head.get("schema_version")) not in (1, SCHEMA_VERSION):
        raise _unusable(
            path, f"schema version {version!r:.40}; this release reads 1 and {SCHEMA_VERSION}"
        )
    arrays_path = folder / layout.CERTIFICATE_ARRAYS
    try:
        return _certificate(record_of(head, CertificateHead), _read_arrays(arrays_path))
    except UnreadableError as error:
        raise _unusable(path, str(error)) from None
    except MalformedError as error:
        raise _unusable(arrays_path, str(error)) from error


def _read_arrays(path: Path) -> dict[str, Array]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        if path.is_symlink() or not path.is_file():
            raise MalformedError("it is missing, or not a plain file")
        if (size := path.stat().st_size) > MAX_ARRAY_BYTES:
            raise MalformedError(f"it has {size:,} bytes, more than {MAX_ARRAY_BYTES:,}")
        return load(path.read_bytes())
    except OSError as error:
        raise MalformedError(error.strerror or str(error)) from error
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, MalformedError):
            raise
        raise MalformedError(f"it is no safetensors file: {error}") from error


def _certificate(head: CertificateHead, arrays: dict[str, Array]) -> Certificate:
    problem = problem_from_arrays(arrays, head.machine, head.routing, head.schema_version)
    for name, wanted in channel_arrays(problem).items():
        found = arrays.get(name)
        if found is None or found.dtype != wanted.dtype or not np.array_equal(found, wanted):
            earlier = head.schema_version < SCHEMA_VERSION and problem.limits.at_ends
            by = "; an earlier release let outputs out elsewhere on the ring" if earlier else ""
            raise MalformedError(f"the array {name} is not that of the machine in the head{by}")
    placement = vector(arrays, "placement.device", np.int32)
    devices = problem.num_chips
    if placement.size != problem.num_units or (
        placement.size and not 0 <= int(placement.min()) <= int(placement.max()) < devices
    ):
        raise MalformedError("the array placement.device does not give every unit a device")
    subjects = [claim.about for claim in head.claims]
    if len(set(subjects)) < len(subjects):
        raise MalformedError("the head has two claims about the same")
    return Certificate(
        problem=problem,
        placement=placement,
        period_s=head.placement.period_s,
        problem_model=head.problem_model,
        cost_model=head.cost_model,
        scope=head.scope,
        claims=head.claims,
        pins=head.pins,
        copies=_rows(arrays, "copy"),
        forwards=_rows(arrays, "forward"),
        considered=other_placements.considered_from_arrays(
            head.considered, arrays, problem.num_units
        ),
        learned=other_placements.learned_from_arrays(head.learned, arrays, problem.num_units),
        figures=objective_figures(head.objective),
        divisions=other_placements.divisions_from_arrays(head.divisions, arrays),
        schema_version=head.schema_version,
    )


def _rows(arrays: Mapping[str, Array], name: str) -> tuple[tuple[str, str, int], ...]:
    of, nodes = texts(arrays, f"{name}.of"), texts(arrays, f"{name}.node")
    devices = vector(arrays, f"{name}.device", np.int32).tolist()
    if not len(of) == len(nodes) == len(devices):
        raise MalformedError(f"the arrays {name}.* differ in length")
    return tuple(zip(of, nodes, devices, strict=True))


def _unusable(path: Path, reason: str) -> CompileError:
    return CompileError.of("MCM-A020", f"the certificate cannot be used: {reason}", at=str(path))
