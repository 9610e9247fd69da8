"""Mutants of an output folder, made in place and taken back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.random import Generator as Draws

from folder_mutations.graph_edits import EDITS
from mcm_compiler.artifact.emit import chip_entry
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.entry.structure_check import load_chips

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        file: that was changed.
        kind: of the change.
        what: it did.
        shared_weight: whether it changed a weight that chips and annotated model share.
    """

    file: str
    kind: str
    what: str
    shared_weight: bool = False


@contextmanager
def mutated(folder: Path, rng: Draws) -> Generator[Mutant | None]:
    """Changes something in a folder, makes its hashes right, and takes it back afterwards."""
    models = sorted(path.name for path in folder.glob("*.onnx"))
    data = sorted(path.name for path in folder.glob("*.onnx.data"))
    target = str(rng.choice([*models, *models, MANIFEST, *data]))
    kept = {name: (folder / name).read_bytes() for name in (MANIFEST,)}
    backup = folder.parent / "kept"
    shutil.copyfile(folder / target, backup)
    try:
        if target == MANIFEST:
            mutant = _mutate_wires(folder, rng)
        elif target in data:
            mutant = _mutate_data(folder, target, rng)
        else:
            mutant = _mutate_model(folder, target, rng)
        if mutant is not None:
            repair(folder, target)
        yield mutant
    finally:
        shutil.copyfile(backup, folder / target)
        for name, content in kept.items():
            (folder / name).write_bytes(content)


def repair(folder: Path, changed: str) -> None:
    """Makes hashes and entries of the manifest say what the files hold."""
    manifest = json.loads((folder / MANIFEST).read_text())
    if changed != MANIFEST:
        manifest["files"][changed] = sha256_file(folder / changed)
        (folder / MANIFEST).write_text(json.dumps(manifest))
    try:
        read = read_manifest(folder)
        entries = {c.chip: chip_entry(c, read.wires) for c in load_chips(folder, read)}
    except Exception:  # a mutant that cannot be read is refused by that alone
        return
    for entry in manifest["chips"]:
        found = entries[entry["chip"]]
        entry["order"] = list(found.order)
        entry["weights"] = [{"name": w.name, "bytes": w.bytes} for w in found.weights]
        entry["receives"] = [list(pair) for pair in found.receives]
        entry["sends"] = [list(pair) for pair in found.sends]
    (folder / MANIFEST).write_text(json.dumps(manifest))


def _mutate_model(folder: Path, name: str, rng: Draws) -> Mutant | None:
    model = onnx.load(folder / name, load_external_data=False)
    edit = EDITS[int(rng.integers(len(EDITS)))]
    before = model.SerializeToString(deterministic=True)
    what = edit(model, rng)
    if what is None or model.SerializeToString(deterministic=True) == before:
        return None
    (folder / name).write_bytes(model.SerializeToString())
    return Mutant(name, edit.__name__, what)


def _mutate_data(folder: Path, name: str, rng: Draws) -> Mutant | None:
    """A byte of a weight."""
    places: list[tuple[int, int, str]] = []
    users: set[str] = set()
    for path in sorted(folder.glob("*.onnx")):
        for tensor in onnx.load(path, load_external_data=False).graph.initializer:
            entries = {e.key: e.value for e in tensor.external_data}
            if entries.get("location") == name:
                places.append((int(entries["offset"]), int(entries["length"]), tensor.name))
                users.add(path.name)
    if not places:
        return None
    offset, length, weight = places[int(rng.integers(len(places)))]
    at = offset + int(rng.integers(length))
    with (folder / name).open("r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ int(rng.integers(1, 256))]))
    return Mutant(name, "data", f"a byte of {weight}", "annotated.onnx" in users)


def _mutate_wires(folder: Path, rng: Draws) -> Mutant | None:
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    wires = manifest["wires"]
    edits: list[Callable[[], str | None]] = [
        lambda: _swap(wires, "tensor", rng),
        lambda: _swap(wires, "source", rng),
        lambda: _swap(wires, "destinations", rng),
        lambda: _drop(wires, rng),
    ]
    what = edits[int(rng.integers(len(edits)))]()
    if what is None:
        return None
    path.write_text(json.dumps(manifest))
    return Mutant(MANIFEST, "wires", what)


def _swap(wires: list[dict[str, object]], field: str, rng: Draws) -> str | None:
    if len(wires) < 2:
        return None
    i, j = (int(k) for k in rng.choice(len(wires), 2, replace=False))
    if wires[i][field] == wires[j][field]:
        return None
    wires[i][field], wires[j][field] = wires[j][field], wires[i][field]
    return f"{field} of wires {i} and {j} swapped"


def _drop(wires: list[dict[str, object]], rng: Draws) -> str | None:
    if not wires:
        return None
    at = int(rng.integers(len(wires)))
    tensor = wires.pop(at)["tensor"]
    return f"wire {at} of {tensor} dropped"


def seeded(seed: int) -> Draws:
    """The generator of a run."""
    return np.random.default_rng(seed)
