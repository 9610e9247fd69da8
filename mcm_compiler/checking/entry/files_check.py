"""Whether the files of an output folder are those that its manifest lists."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import Manifest, damaged, sha256_file
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.units import count_text

_HASHED_AT_ONCE = 2

MAX_BYTES = 1 << 31
"""Size of a file other than one with weights: protobuf writes no larger one. What is larger is not
read for its hash."""


def check_files(folder: Path, manifest: Manifest, *, further: bool = False) -> str:
    """Checks that every file of the manifest is there, with its hash.

    Args:
        folder: an output folder.
        manifest: its manifest.
        further: whether there may be files that the manifest does not list.

    Returns:
        A summary.

    Raises:
        CompileError: as `file_faults`, and MCM-A006 for a file that every folder has.
    """
    faults = file_faults(folder, manifest.files, further=further)
    needed = {layout.ANNOTATED, layout.TARGET}
    needed |= {name for chip in manifest.chips for name in (chip.file, layout.chip_file(chip.chip))}
    faults += unlisted(folder, needed - manifest.files.keys())
    if manifest.files.get(layout.TARGET, manifest.target_sha256) != manifest.target_sha256:
        faults.append(
            Diagnostic(
                "MCM-A008",
                f"the manifest has two hashes of {quote(layout.TARGET)}: target_sha256 is another "
                "than that of the file",
                at=str(folder / layout.MANIFEST),
                hint="compile again",
            )
        )
    if faults:
        raise CompileError(faults)
    return count_text(len(manifest.files), "hash", "hashes")


def unlisted(folder: Path, names: Collection[str]) -> list[Diagnostic]:
    """MCM-A006 for each file that a folder must have and its manifest does not list."""
    return [
        Diagnostic(
            "MCM-A006",
            f"the manifest does not list the file {quote(name)}",
            at=str(folder / layout.MANIFEST),
            hint="compile again",
        )
        for name in sorted(names)
    ]


def file_faults(
    folder: Path, files: Mapping[str, str], *, further: bool = False
) -> list[Diagnostic]:
    """What is wrong with the files of a folder.

    Args:
        folder: an output folder.
        files: sha256 of every file but the manifest by name, as the manifest has them.
        further: whether there may be files that the manifest does not list.

    Returns:
        One diagnostic per file: MCM-A006 for a missing one, MCM-A007 for an unknown one, MCM-A008
        for a changed one, or MCM-A009 for two or more that changed places.

    Raises:
        CompileError: MCM-A005 for a file that cannot be read.
    """
    present = {path.name for path in folder.iterdir()} - {layout.MANIFEST}
    faults = [
        Diagnostic(
            "MCM-A006",
            f"the file {quote(name)} is missing",
            at=str(folder / name),
            hint="copy the whole folder, or compile again",
        )
        for name in sorted(files.keys() - present)
    ]
    if not further:
        faults += [
            Diagnostic(
                "MCM-A007",
                f"the file {quote(name)} is not in the manifest",
                at=str(folder / name),
                hint="move it elsewhere",
            )
            for name in sorted(present - files.keys())
        ]
    plain: list[str] = []
    for name in sorted(present & files.keys()):
        path = folder / name
        if path.is_symlink() or not path.is_file():
            faults.append(
                Diagnostic(
                    "MCM-A006",
                    f"{quote(name)} is not a plain file",
                    at=str(path),
                    hint="put the file itself there, or compile again",
                )
            )
        elif not name.endswith(".data") and (size := path.stat().st_size) > MAX_BYTES:
            faults.append(
                Diagnostic(
                    "MCM-A008",
                    f"the file {quote(name)} was changed: it has {size:,} bytes, the compiler "
                    f"writes at most {MAX_BYTES:,}",
                    at=str(path),
                    hint="compile again",
                )
            )
        else:
            plain.append(name)
    hashes = zip(plain, _hashes(folder, plain), strict=True)
    changed = {name: digest for name, digest in hashes if digest != files[name]}
    return faults + _changed(folder, files, changed)


def _hashes(folder: Path, names: Sequence[str]) -> list[str]:
    """SHA-256 of each file.

    Raises:
        CompileError: MCM-A005 for a file that cannot be read.
    """

    def digest(name: str) -> str:
        try:
            return sha256_file(folder / name)
        except OSError as error:
            raise damaged(folder / name, error.strerror or str(error)) from error

    # Large files first, so that the threads end together.
    order = sorted(names, key=lambda name: -os.stat(folder / name).st_size)
    with ThreadPoolExecutor(_HASHED_AT_ONCE) as pool:
        found = dict(zip(order, pool.map(digest, order), strict=True))
    return [found[name] for name in names]


def _changed(folder: Path, files: Mapping[str, str], changed: dict[str, str]) -> list[Diagnostic]:
    """A diagnostic for each file whose hash is another, and one for those that changed places."""
    home = {files[name]: name for name in changed}
    moved = {name: home[digest] for name, digest in changed.items() if digest in home}
    faults: list[Diagnostic] = []
    if moved:
        parts = [f"{quote(name)} holds {quote(origin)}" for name, origin in moved.items()]
        faults.append(
            Diagnostic(
                "MCM-A009",
                f"files were swapped: {', '.join(parts)}",
                at=str(folder),
                hint="give them their names back, or compile again",
            )
        )
    return faults + [
        Diagnostic(
            "MCM-A008",
            f"the file {quote(name)} was changed: its hash is not the manifest's",
            at=str(folder / name),
            hint="compile again",
        )
        for name in changed
        if name not in moved
    ]
