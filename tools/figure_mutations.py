"""Folders with one invented figure, all hashes made right again, and whether `mcmc check` tells.

    mcmc compile zoo:bert-tiny --target mcm4 --replicas 1 -o bert-tiny-mcm4
    python tools/figure_mutations.py bert-tiny-mcm4 --seed 5 --count 300 --runs --record FILE.json

Numbers, flags and names of `report.json`, `certificate.json`, `certificate.safetensors`,
`program.json` and `manifest.json` are changed one at a time; `report.md` is rendered anew from a
changed report, and the hashes of the manifest follow. A change that says the same (a number that is
written otherwise) is none. `LABELS` has the fields that are left out, and why.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.report.versions import versions
from mcm_compiler.text import json_text

JSON_FILES = (layout.REPORT, layout.CERTIFICATE, layout.PROGRAM, layout.MANIFEST)

LABELS = {
    (layout.MANIFEST, "files"): "hashes are made right again",
    (layout.CERTIFICATE, "claims[].argument"): "words; compared with the report",
}
"""Fields that are no figures."""

MOST_OF_ARRAY = 200
"""Entries of one array that are changed."""

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Mutation:
    """One change.

    Attributes:
        file: where.
        path: keys and indices, or the name of an array and the index in it.
        value: what stands there now; None for `null`.
    """

    file: str
    path: Path_
    value: Any

    @property
    def field(self) -> str:
        """The field, whatever the row."""
        parts = ["[]" if isinstance(p, int) else f".{p}" for p in self.path]
        return "".join(parts).removeprefix(".")


def mutations(folder: Path, rng: random.Random) -> list[Mutation]:
    """All leaves of all files, each changed in one way, in a random order."""
    found: list[Mutation] = []
    for name in JSON_FILES:
        data = json.loads((folder / name).read_bytes())
        for path, value in leaves(data):
            mutation = Mutation(name, path, other(value, rng))
            if _is_figure(mutation):
                found.append(mutation)
    from safetensors.numpy import load_file

    for name, array in sorted(load_file(folder / layout.CERTIFICATE_ARRAYS).items()):
        found += [
            Mutation(
                layout.CERTIFICATE_ARRAYS, (name, index), _other_item(array[index].item(), rng)
            )
            for index in range(min(array.size, MOST_OF_ARRAY))
        ]
    rng.shuffle(found)
    return found


def one_of_each_field(found: list[Mutation]) -> list[Mutation]:
    """The first mutation of each field."""
    first: dict[tuple[str, str], Mutation] = {}
    for mutation in found:
        first.setdefault((mutation.file, mutation.field), mutation)
    return [first[key] for key in sorted(first)]


def leaves(data: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """All values of a JSON document that hold no others, with where they stand."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from leaves(value, (*path, index))
    else:
        yield path, data


def other(value: Any, rng: random.Random) -> Any:
    """Another value of the same kind; never an equal one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1 if value > 0 else 2, 3 * value + 7])
    if isinstance(value, float):
        if value == 0.0:
            return rng.choice([1e-6, 0.5])
        return value * rng.choice([1.5, 0.5, 1.0 + 1e-6, 1.0 - 1e-6, 2.0])
    if value is None:
        return rng.choice([0.25, 3])
    # A name that is still one.
    return f"{value}_x"


def _other_item(value: Any, rng: random.Random) -> Any:
    """Another number that every type of an array holds: texts are letters."""
    found = other(value, rng)
    return found if isinstance(found, (bool, float)) or found < 128 else value - 1


def apply(mutation: Mutation, folder: Path) -> None:
    """Changes the folder, and makes `report.md` and all hashes right again."""
    path = folder / mutation.file
    if mutation.file == layout.CERTIFICATE_ARRAYS:
        from safetensors.numpy import load_file, save_file

        arrays = {name: array.copy() for name, array in load_file(path).items()}
        name, index = mutation.path
        arrays[str(name)][index] = mutation.value
        save_file(arrays, path)
    else:
        data = json.loads(path.read_bytes())
        at = data
        for key in mutation.path[:-1]:
            at = at[key]
        at[mutation.path[-1]] = mutation.value
        json_text.write(path, data)
        if mutation.file == layout.REPORT:
            try:
                text = render_markdown(copy.deepcopy(data))
            except Exception:  # what cannot be rendered is refused before that
                text = ""
            (folder / layout.REPORT_TEXT).write_bytes(text.encode("utf-8", "backslashreplace"))
    rehash(folder)


def rehash(folder: Path) -> None:
    """Makes all hashes of the manifest right."""
    path = folder / layout.MANIFEST
    manifest = json.loads(path.read_bytes())
    manifest["files"] = {name: sha256_file(folder / name) for name in manifest["files"]}
    json_text.write(path, manifest)


def refusal(folder: Path, *, runs: bool = True) -> str | None:
    """The code of what `check` says; None where it accepts the folder."""
    try:
        found = check_folder(folder, seeds=(0,), without=() if runs else ("equality",))
    except CompileError as error:
        return error.diagnostics[0].code
    return None if found.holds else found.diagnostics[0].code


def _is_figure(mutation: Mutation) -> bool:
    return not any(mutation.file == f and mutation.field.startswith(p) for f, p in LABELS)


def run(folder: Path, seed: int, count: int | None, *, runs: bool) -> dict[str, Any]:
    """Applies mutations to copies of a folder, and counts what `check` says of them."""
    rng = random.Random(seed)  # noqa: S311
    found = mutations(folder, rng)[:count]
    codes: dict[str, int] = {}
    accepted: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "out"
        shutil.copytree(folder, work)
        for mutation in found:
            apply(mutation, work)
            code = refusal(work, runs=runs)
            codes[code or "accepted"] = codes.get(code or "accepted", 0) + 1
            if code is None:
                accepted.append({"file": mutation.file, "field": mutation.field})
            for name in (*JSON_FILES, layout.CERTIFICATE_ARRAYS, layout.REPORT_TEXT):
                shutil.copyfile(folder / name, work / name)
    fields = {(m.file, m.field) for m in found}
    return {
        "seed": seed,
        "mutations": len(found),
        "fields": len(fields),
        "codes": dict(sorted(codes.items())),
        "accepted": accepted,
        "versions": versions(),
    }


def main() -> None:
    """Runs from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=None)
    parser.add_argument("--runs", action="store_true", help="compare runs in onnxruntime as well")
    parser.add_argument("--record", type=Path, default=None)
    given = parser.parse_args()
    result = run(given.folder, given.seed, given.count, runs=given.runs)
    command = f"python tools/figure_mutations.py {given.folder.name} --seed {given.seed}"
    runs = " --runs" if given.runs else ""
    result = {"command": f"{command} --count {given.count}{runs}", **result}
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if given.record is not None:
        given.record.write_text(text)
    if result["accepted"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
