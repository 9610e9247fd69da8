"""Opening an output folder: checks its files, and reads from it only what has been checked.

All readers of a folder open it here. Its manifest is read as untrusted input, and names may not
lead out of the folder. Every file it lists is a plain one with the size and the hash that it says.
What the files hold is read once.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from mcm_compiler.additions import addition_of
from mcm_compiler.artifact import layout
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import Manifest, damaged, read_json, read_manifest, target_of
from mcm_compiler.artifact.profiles import ProfileFolder
from mcm_compiler.components.cost_choice import TakesCostModel, choice_of, with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.contracts.program import LoweredProgram, SimulationResult
from mcm_compiler.contracts.target import ChipModel, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.units import count_text

if TYPE_CHECKING:
    from mcm_compiler.certificate.claims import Certificate


_VERSION_1 = (1, "roofline")
"""Schema version of certificates, and the cost model of packages in its release, by default."""


@dataclass(frozen=True, eq=False)
class OpenedFolder:
    """A folder whose manifest is read. What its files hold is read when it is asked for, once.

    Attributes:
        path: the folder.
        manifest: its manifest.
    """

    path: Path
    manifest: Manifest
    _verdicts: dict[int, SimulationResult] = field(
        default_factory=dict[int, "SimulationResult"], repr=False
    )

    @property
    def profile(self) -> str:
        """Name of the profile that the folder is read as; empty where it has no profiles."""
        first = next(iter(self.manifest.profiles), "")
        return self.path.profile if isinstance(self.path, ProfileFolder) else first

    @cached_property
    def chips(self) -> tuple[ChipModel, ...]:
        """The chips' models; see `load_chips`."""
        from mcm_compiler.checking.entry.structure_check import load_chips

        return load_chips(self.path, self.manifest)

    @cached_property
    def source(self) -> ir.Model:
        """The annotated source model; see `load_part`."""
        from mcm_compiler.checking.entry.structure_check import load_part

        return load_part(self.path, layout.ANNOTATED)

    @cached_property
    def target(self) -> Target:
        """The package; see `folder_target`. Its cost model is the default of the folder's release.

        Raises:
            CompileError: as `folder_target`.
        """
        target = target_of(self.path, self.manifest)
        if layout.CERTIFICATE not in self.manifest.files:
            return target
        choice = choice_of(target)
        with suppress(CompileError):  # what is wrong with the file, the certificate's check says
            head = read_json(self.path / layout.CERTIFICATE)
            version = head.get("schema_version"), head.get("cost_model")
            if choice is None and version == _VERSION_1:
                return with_cost_model(target, _VERSION_1[1], user_files(None))
            if isinstance(target, TakesCostModel) and choice is not None and version[0] == 1:
                return target.with_cost_model(replace(choice, on_roofline=True))
        return target

    @cached_property
    def program(self) -> LoweredProgram:
        """The lowered program; see `folder_program`."""
        from mcm_compiler.artifact.program_file import folder_program

        return folder_program(self.path)

    @cached_property
    def mapped(self) -> tuple[Any, ...]:
        """Results of the target's addition for mapped chips; empty where none are mapped.

        Raises:
            CompileError: MCM-M024 where there are mappings, and the target's chips are not mapped;
                as `Addition.read`.
        """
        files = sorted(filter(layout.is_mapping_file, self.manifest.files))
        if not files:
            return ()
        if (found := addition_of(self.target)) is None:
            raise CompileError.of(
                "MCM-M024",
                f"there are mappings, and the chips of {quote(self.target.name)} are no fabrics",
                at=files[0],
            )
        return found[1].read(self.path, self.manifest.files, self.chips, self.target)

    def simulated(self, inferences: int) -> SimulationResult:
        """The target's simulator on the program; played once for each number of inferences."""
        found = self._verdicts.get(inferences)
        if found is None:
            from mcm_compiler.placements.side_by_side import simulate_pipelines

            found = simulate_pipelines(
                self.target,
                self.program,
                inferences,
                self.manifest.replicas,
                self.manifest.chips_each,
            )
            self._verdicts[inferences] = found
        return found

    @cached_property
    def report(self) -> dict[str, Any]:
        """The stored report.

        Raises:
            CompileError: MCM-A005 if it is missing, damaged, or of another schema version.
        """
        return read_report(self.path / layout.REPORT)

    @cached_property
    def certificate(self) -> Certificate | None:
        """The certificate; None where the manifest lists none, because nothing was placed.

        Raises:
            CompileError: MCM-A020 if it cannot be used.
        """
        from mcm_compiler.certificate.files import read_certificate

        listed = {layout.CERTIFICATE, layout.CERTIFICATE_ARRAYS} & self.manifest.files.keys()
        return read_certificate(self.path) if listed else None


def open_folder(path: Path, *, further: bool = False) -> OpenedFolder:
    """Opens an output folder: nothing but what the compiler wrote gets through.

    Args:
        path: the folder.
        further: whether there may be files that the manifest does not list; nothing reads them.

    Raises:
        CompileError: MCM-A004 to MCM-A009, one diagnostic per file.
    """
    opened = OpenedFolder(path, read_manifest(path))
    check_files(path, opened.manifest, further=further)
    return opened


def bare_report_note(path: Path) -> Diagnostic:
    """MCM-A021 for a report that is read without the folder that it is about."""
    return Diagnostic(
        "MCM-A021", "the report is read by itself: no folder proves its figures", at=str(path)
    )


def read_report(path: Path) -> dict[str, Any]:
    """A report by its path; what it says is for `check_figures` to prove.

    Raises:
        CompileError: MCM-A005 if it is missing, damaged, or of another schema version.
    """
    report = dict(read_json(path))
    version = report.get("schema_version")
    if version != layout.REPORT_SCHEMA_VERSION:
        shown = f"{version!r:.40}"
        wanted = layout.REPORT_SCHEMA_VERSION
        raise damaged(path, f"its schema version is {shown}, not {wanted}")
    return report


MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of reading fields of a report that is not of the published schema."""


@contextmanager
def fields_of(report: Path) -> Generator[None]:
    """Code that reads fields of a report as if they were what the schema says.

    Raises:
        CompileError: MCM-A005 where they are not.
    """
    try:
        yield
    except MALFORMED as error:
        reason = f"a field is missing or malformed: {type(error).__name__} {error}"
        raise damaged(report, reason) from error


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
            )
        )
    CompileError.raise_any(faults)
    return count_text(len(manifest.files), "hash", "hashes")


def unlisted(folder: Path, names: Collection[str]) -> list[Diagnostic]:
    """MCM-A006 for each file that a folder must have and its manifest does not list."""
    return [
        Diagnostic(
            "MCM-A006",
            f"the manifest does not list the file {quote(name)}",
            at=str(folder / layout.MANIFEST),
        )
        for name in sorted(names)
    ]


def file_faults(
    folder: Path, files: Mapping[str, str], *, further: bool = False
) -> list[Diagnostic]:
    """Faults of a folder's files.

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
        _fault("MCM-A006", folder, name, "is missing") for name in sorted(files.keys() - present)
    ]
    if not further:
        unknown = sorted(present - files.keys())
        faults += [_fault("MCM-A007", folder, name, "is not in the manifest") for name in unknown]
    plain: list[str] = []
    for name in sorted(present & files.keys()):
        path = folder / name
        if path.is_symlink() or not path.is_file():
            hint = "put the file itself there, or compile again"
            message = f"{quote(name)} is not a plain file"
            faults.append(Diagnostic("MCM-A006", message, at=str(path), hint=hint))
        elif not name.endswith(".data") and (size := path.stat().st_size) > MAX_BYTES:
            how = f"it has {size:,} bytes, the compiler writes at most {MAX_BYTES:,}"
            faults.append(_fault("MCM-A008", folder, name, f"was changed: {how}"))
        else:
            plain.append(name)
    hashes = zip(plain, _hashes(folder, plain), strict=True)
    changed = {name: digest for name, digest in hashes if digest != files[name]}
    return faults + _changed(folder, files, changed)


def _fault(code: str, folder: Path, name: str, what: str) -> Diagnostic:
    return Diagnostic(code, f"the file {quote(name)} {what}", at=str(folder / name))


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
            Diagnostic("MCM-A009", f"files were swapped: {', '.join(parts)}", at=str(folder))
        )
    how = "was changed: its hash is not the manifest's"
    return faults + [_fault("MCM-A008", folder, name, how) for name in changed if name not in moved]
