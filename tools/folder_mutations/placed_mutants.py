"""Mutants of folders of `mcmc place`: any leaf of any file, with every hash made right again.

What does not change meaning is no mutant: white space, the order of keys and comments, a number
written otherwise, and the wire format of a model. Each mutant here changes a value.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
from numpy.random import Generator as Draws

from folder_mutations.graph_edits import EDITS
from folder_mutations.mutants import MANIFEST, Mutant
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.placed import records


@contextmanager
def mutated_placement(folder: Path, rng: Draws) -> Generator[Mutant | None]:
    """Changes something in a folder, makes its hashes right, and takes it back afterwards."""
    names = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST)
    json_names = [name for name in names if name.endswith(".json")]
    name = str(rng.choice([*names, *json_names, *json_names, records.PLACEMENT]))
    kept = folder.parent / "kept"
    shutil.copytree(folder, kept)
    try:
        mutant = mutate_placement(folder, name, rng)
        if mutant is not None:
            repair_placement(folder)
        yield mutant
    finally:
        shutil.rmtree(folder)
        kept.rename(folder)


def mutate_placement(folder: Path, name: str, rng: Draws) -> Mutant | None:
    """Changes one value of a file; None where the draw has nothing to change."""
    path = folder / name
    if name.endswith(".json"):
        data = json.loads(path.read_text())
        what = _change_leaf(data, rng)
        path.write_text(json.dumps(data))
        return Mutant(name, "leaf", what)
    if name.endswith(".onnx"):
        return _mutate_model(path, rng)
    if name.endswith(".toml"):
        return _mutate_number(path, rng)
    content = bytearray(path.read_bytes())
    at = int(rng.integers(len(content)))
    content[at] ^= int(rng.integers(1, 256))
    path.write_bytes(bytes(content))
    return Mutant(name, "byte", f"byte {at}")


def repair_placement(folder: Path) -> None:
    """Makes hashes of the manifest say what the files hold."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    manifest["files"] = {name: sha256_file(folder / name) for name in manifest["files"]}
    path.write_text(json.dumps(manifest))


def _change_leaf(data: Any, rng: Draws) -> str:
    """Changes, drops, adds to or empties something below, by a walk from the top."""
    holder, where = data, ""
    while True:
        keys = list(range(len(holder))) if isinstance(holder, list) else list(holder)
        key = keys[int(rng.integers(len(keys)))]
        where += f"[{key}]" if isinstance(holder, list) else f".{key}"
        value = holder[key]
        if not isinstance(value, (list, dict)) or not value or rng.random() < 0.2:
            break
        holder = value
    kind = str(rng.choice(["value", "value", "value", "drop", "add", "empty"]))
    if kind == "drop":
        del holder[key]
        return f"{where} dropped"
    if kind == "empty" and value not in ([], {}, "", None):
        holder[key] = type(value)() if isinstance(value, (list, dict, str)) else None
        return f"{where} emptied"
    if kind == "add" and isinstance(value, list) and value:
        value.append(value[int(rng.integers(len(value)))])
        return f"an entry of {where} doubled"
    holder[key] = _other(value, rng)
    return f"{where}: {value!r:.40} becomes {holder[key]!r:.40}"


def _other(value: Any, rng: Draws) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + int(rng.choice([-1, 1, 7]))
        case float():
            return value * float(rng.choice([0.5, 1.0 + 1e-12, 1.25])) + 1e-9
        case str():
            return value + "x" if rng.random() < 0.5 or not value else value[:-1]
        case None:
            return 1.0
        case list():
            return value[::-1] if len(value) > 1 and value != value[::-1] else [*value, "x"]
        case _:
            return {**value, "added": 1}


def _mutate_model(path: Path, rng: Draws) -> Mutant | None:
    model = onnx.load(path, load_external_data=False)
    before = model.SerializeToString(deterministic=True)
    if rng.random() < 0.5:
        edit = EDITS[int(rng.integers(len(EDITS)))]
        kind, what = edit.__name__, edit(model, rng)
    else:
        kind, what = _change_text(model, rng)
    if what is None or model.SerializeToString(deterministic=True) == before:
        return None
    path.write_bytes(model.SerializeToString())
    return Mutant(path.name, kind, what)


def _change_text(model: onnx.ModelProto, rng: Draws) -> tuple[str, str | None]:
    """Marks, names, declared shapes and versions."""
    nodes, values = list(model.graph.node), [*model.graph.value_info, *model.graph.output]
    node = nodes[int(rng.integers(len(nodes)))] if nodes else None
    kind = str(rng.choice(["mark", "stage", "name", "shape", "version", "graph"]))
    if kind == "mark" and node is not None and node.metadata_props:
        entry = node.metadata_props[int(rng.integers(len(node.metadata_props)))]
        entry.value += "1"
        return kind, f"{entry.key} of {node.name}"
    if kind == "stage" and node is not None and node.device_configurations:
        node.device_configurations[0].pipeline_stage += 1
        return kind, f"stage of {node.name}"
    if kind == "name" and node is not None:
        node.name += "x"
        return kind, f"name of {node.name}"
    if kind == "shape" and values:
        value = values[int(rng.integers(len(values)))]
        dims = value.type.tensor_type.shape.dim
        if dims:
            dims[0].dim_value += 1
            return kind, f"shape of {value.name}"
    if kind == "version":
        model.ir_version += 1
        return kind, "ir_version"
    if kind == "graph":
        model.graph.name += "x"
        return kind, "name of the graph"
    return kind, None


def _mutate_number(path: Path, rng: Draws) -> Mutant | None:
    """A number of the description of the box."""
    lines = path.read_text().splitlines()
    found = [
        (at, key.strip(), value.strip())
        for at, line in enumerate(lines)
        for key, is_there, value in [line.partition("=")]
        if is_there and value.strip().replace(".", "").replace("_", "").isdigit()
    ]
    if not found:
        return None
    at, key, value = found[int(rng.integers(len(found)))]
    lines[at] = f"{key} = {float(value.replace('_', '')) * 2 + 1:g}"
    if "." not in value:
        lines[at] = f"{key} = {int(value.replace('_', '')) + 1}"
    path.write_text("\n".join(lines) + "\n")
    return Mutant(path.name, "number", f"{key} of line {at + 1}")
