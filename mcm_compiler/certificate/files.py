"""The files of a certificate: a head in JSON, and arrays in the safetensors format.

A certificate may come from anywhere. It is read as data only: sizes are compared with limits before
anything is read, types and ranges before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler.artifact import json_text, layout
from mcm_compiler.artifact.json_shapes import Flag, ListOf, Number, Pair, Record, Table, Text, Whole
from mcm_compiler.artifact.manifest import read_json
from mcm_compiler.certificate.channels import channel_arrays
from mcm_compiler.certificate.claims import Certificate, Claim, Scope
from mcm_compiler.certificate.other_placements import (
    CONSIDERED,
    LEARNED,
    considered_from_arrays,
    considered_to_arrays,
    learned_from_arrays,
    learned_to_arrays,
)
from mcm_compiler.certificate.problem_arrays import (
    Array,
    MalformedError,
    problem_from_arrays,
    problem_to_arrays,
    put_texts,
    texts,
    vector,
)
from mcm_compiler.diagnostics import CompileError, Diagnostic

SCHEMA_VERSION = 1

MAX_ARRAY_BYTES = 1 << 29
"""Size of the arrays' file; a model of 100,000 ops has a tenth of it."""

_COUNT = Whole(1, 2**31 - 1)


class _AnyValue:
    """A shape that takes everything: what it is, is told by who reads it."""

    def fault(self, data: Any, place: str) -> str | None:
        return None


_HEAD = Record(
    {
        "problem_model": Text(),
        "cost_model": Text(),
        "routing": Text(("strict", "relay")),
        "machine": Table(_AnyValue()),
        "scope": Record(
            {
                "devices": _COUNT,
                "pipelines": _COUNT,
                "devices_each": _COUNT,
                "any_number": Flag(),
            }
        ),
        "placement": Record({"period_s": Number()}),
        "claims": ListOf(
            Record(
                {
                    "about": Text(("pipeline", "package")),
                    "seconds": Number(),
                    "proof": Text(),
                    "argument": Text(),
                }
            )
        ),
        "pins": ListOf(Pair(Text(), Whole(0, 2**31 - 1))),
        "considered": CONSIDERED,
        "learned": LEARNED,
    }
)


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
    scope = certificate.scope
    head = {
        "schema_version": SCHEMA_VERSION,
        "problem_model": certificate.problem_model,
        "cost_model": certificate.cost_model,
        "routing": certificate.problem.routing,
        "machine": machine,
        "scope": {
            "devices": scope.devices,
            "pipelines": scope.pipelines,
            "devices_each": scope.devices_each,
            "any_number": scope.any_number,
        },
        "placement": {"period_s": certificate.period_s},
        "claims": [
            {"about": c.about, "seconds": c.seconds, "proof": c.proof, "argument": c.argument}
            for c in certificate.claims
        ],
        "pins": [list(pin) for pin in certificate.pins],
        "considered": considered_to_arrays(certificate.considered, arrays),
        "learned": learned_to_arrays(certificate.learned, arrays),
    }
    json_text.write(folder / layout.CERTIFICATE, head)
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
    if (fault := _HEAD.fault(head, "")) is not None:
        raise _unusable(path, fault)
    arrays_path = folder / layout.CERTIFICATE_ARRAYS
    try:
        return _certificate(head, _read_arrays(arrays_path))
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


def _certificate(head: Mapping[str, Any], arrays: dict[str, Array]) -> Certificate:
    problem = problem_from_arrays(arrays, head["machine"], head["routing"])
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
    subjects = [claim["about"] for claim in head["claims"]]
    if len(set(subjects)) < len(subjects):
        raise MalformedError("the head has two claims about the same")
    if any(claim["seconds"] < 0 for claim in head["claims"]) or head["placement"]["period_s"] < 0:
        raise MalformedError("the head has a negative time")
    scope = Scope(**{key: head["scope"][key] for key in Scope.__dataclass_fields__})
    return Certificate(
        problem=problem,
        placement=placement,
        period_s=float(head["placement"]["period_s"]),
        problem_model=head["problem_model"],
        cost_model=head["cost_model"],
        scope=scope,
        claims=tuple(
            Claim(c["about"], float(c["seconds"]), c["proof"], c["argument"])
            for c in head["claims"]
        ),
        pins=tuple((name, device) for name, device in head["pins"]),
        copies=_rows(arrays, "copy"),
        forwards=_rows(arrays, "forward"),
        considered=considered_from_arrays(head["considered"], arrays, problem.num_units),
        learned=learned_from_arrays(head["learned"], arrays, problem.num_units),
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
