"""The files of a certificate: a head in JSON, and arrays in the safetensors format.

A certificate may come from anywhere. It is read as data only: sizes are compared with limits before
anything is read, types and ranges before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import read_json
from mcm_compiler.certificate.channels import channel_arrays
from mcm_compiler.certificate.claims import Certificate, Claim, ClaimScope
from mcm_compiler.certificate.objective_rows import (
    ObjectiveRow,
    objective_figures,
    objective_row,
)
from mcm_compiler.certificate.other_placements import (
    ConsideredRow,
    LearnedRow,
    considered_from_arrays,
    considered_to_arrays,
    learned_from_arrays,
    learned_to_arrays,
)
from mcm_compiler.certificate.stored_problem import (
    Array,
    MalformedError,
    problem_from_arrays,
    problem_to_arrays,
    put_texts,
    texts,
    vector,
)
from mcm_compiler.contracts.target import Routing
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.text import json_text
from mcm_compiler.text.bounded_json import UnreadableError
from mcm_compiler.text.bounded_numbers import Amount, Index
from mcm_compiler.text.json_records import record_of

SCHEMA_VERSION: Final = 1

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
    """What `certificate.json` holds, in its order; the arrays lie in `certificate.safetensors`.

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
    """

    schema_version: Literal[1]
    problem_model: str
    cost_model: str
    routing: Routing
    machine: dict[str, bool | int | float | str]
    scope: ClaimScope
    placement: PlacementRow
    claims: tuple[Claim, ...]
    pins: tuple[tuple[str, Index], ...]
    considered: tuple[ConsideredRow, ...]
    learned: LearnedRow | None
    objective: ObjectiveRow | None = None


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
        considered=considered_to_arrays(certificate.considered, arrays),
        learned=learned_to_arrays(certificate.learned, arrays),
        objective=objective_row(certificate.figures),
    )
    data = asdict(head)
    if head.objective is None:
        del data["objective"]
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
    if (version := head.get("schema_version")) != SCHEMA_VERSION:
        raise _unusable(
            path, f"schema version {version!r:.40}; this release reads {SCHEMA_VERSION}"
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
    problem = problem_from_arrays(arrays, head.machine, head.routing)
    for name, wanted in channel_arrays(problem).items():
        found = arrays.get(name)
        if found is None or found.dtype != wanted.dtype or not np.array_equal(found, wanted):
            raise MalformedError(f"the array {name} is not that of the machine in the head")
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
        considered=considered_from_arrays(head.considered, arrays, problem.num_units),
        learned=learned_from_arrays(head.learned, arrays, problem.num_units),
        figures=objective_figures(head.objective),
    )


def _rows(arrays: Mapping[str, Array], name: str) -> tuple[tuple[str, str, int], ...]:
    of, nodes = texts(arrays, f"{name}.of"), texts(arrays, f"{name}.node")
    devices = vector(arrays, f"{name}.device", np.int32).tolist()
    if not len(of) == len(nodes) == len(devices):
        raise MalformedError(f"the arrays {name}.* differ in length")
    return tuple(zip(of, nodes, devices, strict=True))


def _unusable(path: Path, reason: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "MCM-A020",
            f"the certificate cannot be used: {reason}",
            at=str(path),
            hint="copy the whole folder, or compile again",
        )
    )
