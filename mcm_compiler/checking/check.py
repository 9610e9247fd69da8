"""`mcmc check`: proves an output folder from its files alone.

The steps go from bytes to meaning: nothing of the folder is executed before its hashes, its data
locations and its wiring hold.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mcm_compiler.additions import addition_of
from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import folder_record, read_manifest
from mcm_compiler.artifact.profiles import ProfileFolder
from mcm_compiler.certificate.bound_check import check_bound, not_re_proved
from mcm_compiler.checking import certificate_check, structure_step
from mcm_compiler.checking.comparison import equality, stock_options, user_data
from mcm_compiler.checking.comparison.output_coverage import weakness_warnings
from mcm_compiler.checking.entry.constraint_check import check_constraints
from mcm_compiler.checking.entry.gate import OpenedFolder, check_files
from mcm_compiler.checking.entry.placement_marks import check_host_marks, check_placement_marks
from mcm_compiler.checking.entry.run_folder import runtime_inputs
from mcm_compiler.checking.entry.structure_check import check_structure
from mcm_compiler.checking.figures_check import MAX_INFERENCES, check_figures
from mcm_compiler.checking.groups_check import changed_op, check_divisions, fusion_unknown
from mcm_compiler.checking.memory_check import check_memory
from mcm_compiler.checking.profiles_check import check_profiles
from mcm_compiler.checking.shapes_check import check_shapes
from mcm_compiler.contracts import zoo
from mcm_compiler.contracts.verification import StructureProof, Verification
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.round_classes import ends_of
from mcm_compiler.execution.npz_inputs import GivenInputs
from mcm_compiler.processes.crash_journal import doing
from mcm_compiler.processes.garbage import reclaim
from mcm_compiler.report.report_data import verification_data
from mcm_compiler.report.verdict.words import line_of, verification_sentence
from mcm_compiler.results.strictness import CheckStep, reasons_of_verification, unproven
from mcm_compiler.text import json_text, units
from mcm_compiler.text.headline import Headline, Shown
from mcm_compiler.text.units import count_text

Inferences = Annotated[int, Meta(ge=1, le=MAX_INFERENCES)]

_NEEDS = {
    "memory": {"mappings"},
    "profiles": {"memory"},
    "simulation": {"memory"},
    "certificate": {"memory"},
    "bound": {"certificate"},
    "figures": {"mappings", "memory", "simulation", "certificate"},
}
"""Steps that say nothing new where another one fails. A program that is not that of the chips is
not played, a bound is one of the folder's problem, and figures follow from all of these."""


@dataclass(frozen=True)
class _AskedOptions:
    """Of the options in a report, what a simulation repeats."""

    inferences: Inferences


@dataclass(frozen=True)
class _SimulatedReport:
    """Of a report with a simulation, what it says of that."""

    period_s: json_text.Number
    inferences: Inferences
    options: _AskedOptions


@dataclass(frozen=True, repr=False)
class CheckReport(Shown):
    """The verdict on an output folder.

    Attributes:
        steps: what was checked; a step after one that failed may be missing.
        diagnostics: one or more for each step that failed or was skipped.
        verification: the comparison in onnxruntime, where it was reached.
        structure: what is proven without a run, where it was reached.
        folder: that was checked, for diagnostics.
    """

    steps: tuple[CheckStep, ...]
    diagnostics: tuple[Diagnostic, ...]
    verification: Verification | None
    structure: StructureProof | None = None
    folder: str = ""

    def with_profile(self, profile: str, other: CheckReport) -> CheckReport:
        """The verdict on the folder of a further profile added to that of the first."""
        about = f"profile {quote(profile)}"
        return replace(
            self,
            steps=(
                *self.steps,
                *(replace(step, name=f"{profile}: {step.name}") for step in other.steps),
            ),
            diagnostics=(*self.diagnostics, *(one.within(about) for one in other.diagnostics)),
        )

    @property
    def headline(self) -> Headline:
        """The steps with what they found."""
        lines = [
            line_of(
                step.name,
                step.detail,
                [],
                "bad" if not step.holds else "warn" if step.skipped else "good",
            )
            for step in self.steps
        ]
        summary = self.summary(self.diagnostics)
        return Headline((self.folder, "", "from its files alone"), lines, self.holds, summary)

    def summary(self, diagnostics: Sequence[Diagnostic]) -> str:
        """The verdict in a few words.

        Args:
            diagnostics: whose errors are named.
        """
        errors = dict.fromkeys(d.code for d in diagnostics if d.severity == "error")
        codes = ", ".join(errors)
        if not self.holds:
            return f"{codes} in {' and '.join(step.name for step in self.steps if not step.holds)}"
        done = sum(not step.skipped for step in self.steps)
        line = f"{count_text(done, 'step')} hold" + ("s" if done == 1 else "")
        if skipped := [step.name for step in self.steps if step.skipped]:
            line += f", not checked: {', '.join(skipped)}"
        return f"{line}, {codes}" if codes else line

    @property
    def complete(self) -> bool:
        """True if every step was done: equality needs inputs that the model runs on."""
        return not any(step.skipped for step in self.steps)

    @property
    def unproven(self) -> tuple[Diagnostic, ...]:
        """MCM-U051 for each thing that is left open: with `--strict` they are errors."""
        return unproven(self._open_questions(), self.folder)

    @property
    def holds(self) -> bool:
        """True if every step passed."""
        return all(step.holds for step in self.steps)

    def _open_questions(self) -> Iterator[str]:
        """Points that the check leaves open, though every step holds: one line each."""
        for step in self.steps:
            if step.skipped and step.name != "equality":
                yield f"step '{step.name}' was skipped: {step.detail}"
        yield from reasons_of_verification(self.verification)


def check_folder(
    folder: str | Path,
    *,
    seeds: Sequence[int] = (0, 1),
    proven_seeds: int | None = 1,
    data: Sequence[user_data.RunData] = (),
    test_data: Path | None = None,
    model: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    without: Collection[str] = (),
) -> CheckReport:
    """Checks hashes, structure, source, constraints, memory, simulation and equality.

    Of a folder with profiles each is checked; data are those of the first.

    Args:
        folder: an output folder.
        seeds: seeds of the random inputs that are compared.
        proven_seeds: how many of them where every op is proven; None compares all.
        data: the user's data, compared as well.
        test_data: a `test_data_set_N` folder, or one that holds such folders, compared as well
            and with the outputs that it expects.
        model: path or `zoo:NAME` of the model that the folder was compiled from. The folder is
            compared with it, under stock session options as well; None trusts `annotated.onnx`.
        progress: called with the name of each step as it begins.
        without: names of steps to leave out.

    Raises:
        CompileError: MCM-A004 or MCM-A005 if there is no readable manifest.
    """
    reclaim()
    folder = folder if isinstance(folder, Path) else Path(folder)
    named = None if model is None else os.fspath(model)
    opened = OpenedFolder(folder, read_manifest(folder))
    run = _Run(seeds, proven_seeds, data, test_data, opened, named)
    report = check_steps(folder, run, ("files", "structure"), progress, without)
    for profile in () if isinstance(folder, ProfileFolder) else opened.manifest.profiles[1:]:
        if any(step.name == "files" and not step.holds for step in report.steps):
            break  # its files are among those
        other = check_folder(
            ProfileFolder.of(folder, profile),
            seeds=seeds or (0,),
            proven_seeds=proven_seeds,
            model=model,
            progress=progress,
            without=without,
        )
        report = report.with_profile(profile, other)
    return report


@dataclass(eq=False)
class CheckRun(ABC):
    """One check of a folder of any kind: what is asked for, and what its steps have found so far.

    Attributes:
        seeds: as in `check_folder`.
        proven_seeds: as there.
        data: as there.
        test_data: as there.
        verification: the comparison in onnxruntime, once it was made.
        structure: what is proven without a run, once it is.
        skips: notes on steps that hold, but in which something was not checked.
    """

    seeds: Sequence[int]
    proven_seeds: int | None
    data: Sequence[user_data.RunData]
    test_data: Path | None
    verification: Verification | None = field(default=None, init=False)
    structure: StructureProof | None = field(default=None, init=False)
    skips: dict[str, Diagnostic] = field(default_factory=dict[str, Diagnostic], init=False)

    @abstractmethod
    def steps(self) -> dict[str, Callable[[], str]]:
        """The steps in their order. Each returns what it found, or raises `CompileError`."""

    def notes(self, step: str) -> list[Diagnostic]:
        """Notes on a step that holds."""
        found = [self.skips[step]] if step in self.skips else []
        if step == "equality" and self.verification is not None:
            found += weakness_warnings(self.verification.weak, self.verification.structure)
            found += stock_options.died_warning(self.verification)
        return found

    def compared(self, found: Verification, where: Callable[[], str | None]) -> str:
        """Takes the result of a comparison in onnxruntime.

        Args:
            found: the result.
            where: names where outputs that differ come from, if anything does.

        Raises:
            CompileError: MCM-V020 and MCM-V022 for outputs that differ, MCM-V001 to MCM-V003 where
                a side does not run.
        """
        self.verification = found
        if (skipped := equality.not_compared(found)) is not None:
            self.skips["equality"] = skipped
        if not found.holds:
            raise CompileError(equality.differences(found, where()))
        return describe_verification(found)


def check_steps(
    folder: Path,
    run: CheckRun,
    ends: Collection[str],
    progress: Callable[[str], None] | None = None,
    without: Collection[str] = (),
) -> CheckReport:
    """Run the steps of a check.

    Args:
        folder: that is checked.
        run: the check.
        ends: steps after whose failure nothing else runs: the rest would read or execute files that
            are not those of the manifest.
        progress: called with the name of each step as it begins.
        without: names of steps to leave out.
    """
    done: list[CheckStep] = []
    found: list[Diagnostic] = []
    for name, step in run.steps().items():
        failed = {step.name for step in done if not step.holds}
        if name in without or _NEEDS.get(name, set()) & failed:
            continue
        if progress is not None:
            progress(name)
        try:
            with doing(f"folder {quote(str(folder))}"), doing(f"step '{name}'"):
                detail = step()
            done.append(CheckStep(name, True, name in run.skips, detail))
            found += run.notes(name)
        except CompileError as error:
            # A file that several steps read is told once.
            found += [fault for fault in error.diagnostics if fault not in found]
            done.append(CheckStep(name, False, False, error.diagnostics[0].message))
            if name in ends:
                break
    return CheckReport(
        tuple(done), tuple(found), run.verification, run.structure, quote(str(folder))
    )


@dataclass(eq=False)
class _Run(CheckRun):
    """One check of a compiled folder.

    Attributes:
        opened: the folder.
        model: as in `check_folder`.
    """

    opened: OpenedFolder
    model: str | None

    def steps(self) -> dict[str, Callable[[], str]]:
        """The steps in their order. Each returns what it found, or raises `CompileError`."""
        opened = self.opened
        folder, manifest = opened.path, opened.manifest
        profile = isinstance(folder, ProfileFolder)  # whose folder has files of others, too
        mapped = any(map(layout.is_mapping_file, manifest.files))
        mappings: dict[str, Callable[[], str]] = {"mappings": self._mappings} if mapped else {}
        together: dict[str, Callable[[], str]] = {"profiles": lambda: check_profiles(opened)}
        return {
            "files": lambda: check_files(folder, manifest, further=profile),
            "structure": lambda: check_structure(opened),
            "source": self._source,
            "constraints": lambda: _check_constraints(opened),
            **mappings,
            "memory": lambda: _check_memory(opened),
            **(together if manifest.profiles else {}),
            "simulation": lambda: _check_simulation(opened),
            "certificate": self._certificate,
            "bound": self._bound,
            "equality": self._equality,
            "figures": lambda: check_figures(opened, self.verification, self.structure, self.seeds),
        }

    def notes(self, step: str) -> list[Diagnostic]:
        """Points that a step leaves open though it holds."""
        found = super().notes(step)
        if step == "source" and self.structure is not None:
            note = structure_step.left_to_runs(
                self.structure, structure_step.recorded_points(self.opened)
            )
            found += [note] if note is not None else []
        return found

    def _mappings(self) -> str:
        opened = self.opened
        found = addition_of(opened.target) if opened.mapped else None
        if found is None:
            return "none"
        return found[1].check(opened.path, opened.manifest.files, opened.chips, opened.target)

    def _certificate(self) -> str:
        found = self.opened.certificate
        if found is None:
            return certificate_check.refuse_unproven(self.opened.report)
        detail = certificate_check.check_certificate(self.opened, found)
        if (note := certificate_check.not_simulated_again(found)) is not None:
            self.skips["certificate"] = note
            detail = f"{detail}; {note.message}"
        return detail

    def _bound(self) -> str:
        found = self.opened.certificate
        if found is None:
            return "nothing is claimed"
        detail, missing = check_bound(found, self.opened.target.limits)
        if missing is None and (unknown := fusion_unknown(self.opened.manifest.pipeline)):
            missing = not_re_proved(unknown, hint="check where all its passes are installed")
        if found.figures is not None:
            from mcm_compiler.certificate.objective_check import check_objective

            of_objective, unshown = check_objective(found, found.figures, self.opened.target.limits)
            detail, missing = f"{detail}; {of_objective}", missing or unshown
        of_divisions, unshown = check_divisions(self.opened, found)
        detail, missing = "; ".join(filter(None, (detail, of_divisions))), missing or unshown
        if missing is not None:
            self.skips["bound"] = missing
        return detail

    def _source(self) -> str:
        manifest = self.opened.manifest
        user_model = None
        if self.model is not None:
            given = None
            with suppress(CompileError):  # unfit data are a fault of the comparison
                given = next((GivenInputs(d.name, d.inputs) for d in self._own_data()), None)
            user_model = structure_step.read_user_model(self.model, manifest, given)
        self.structure = structure_step.prove_folder(self.opened, user_model)
        CompileError.raise_any(
            structure_step.structure_faults(
                self.structure, structure_step.recorded_points(self.opened)
            )
        )
        source = ends_of(self.opened.source, manifest.round)
        check_shapes(self.opened.chips, manifest.run_wires, source)
        return structure_step.describe_structure(self.structure)

    def _own_data(self) -> list[user_data.RunData]:
        values = runtime_inputs(self.opened.manifest.inputs, [one.inputs for one in self.data])
        return [replace(one, inputs=own) for one, own in zip(self.data, values, strict=True)]

    def _equality(self) -> str:
        folder, manifest = self.opened.path, self.opened.manifest
        chips = [chip.chip for chip in manifest.chips]
        users = self._own_data()
        if self.test_data is not None:
            users += user_data.read_data_sets(self.test_data, self.opened.source)
        own = self.model is not None and not self.model.startswith(zoo.PREFIX)
        file = Path(self.model or "") if own else folder / layout.ANNOTATED
        found = equality.verify_folder(
            equality.ReadFolder(
                folder, self.opened.source, manifest.shape_only, manifest.round, self.structure
            ),
            chips,
            manifest.wires,
            self.seeds,
            users,
            enough=self.proven_seeds if self.structure and self.structure.whole else None,
            stock=None if self.model is None else file,
            states=manifest.states.held,
        )
        return self.compared(
            replace(found, structure=self.structure),
            lambda: changed_op(self.opened.chips, self.opened.source),
        )


def _check_constraints(opened: OpenedFolder) -> str:
    rules = check_constraints(opened.manifest, opened.chips, opened.target)
    marks = check_host_marks(opened.chips, opened.source, opened.target)
    check_placement_marks(opened.chips, opened.source, opened.manifest, opened.target)
    return f"{rules}, {marks}" if marks else rules


def _check_memory(opened: OpenedFolder) -> str:
    if layout.PROGRAM not in opened.manifest.files:
        # The report of such a folder has no figure of a program, which `figures` makes sure of.
        return "nothing was lowered at compile time"
    return check_memory(
        opened.chips, opened.manifest.wires, opened.target, opened.program, opened.mapped
    )


def _check_simulation(opened: OpenedFolder) -> str:
    path, report = opened.path / layout.REPORT, opened.report
    period = report.get("period_s")
    if period is None:
        return "nothing was simulated at compile time"
    asked = folder_record(path, report, _SimulatedReport).options.inferences
    period_s = opened.simulated(asked).period_s / opened.manifest.at_once
    if period_s != period:
        raise CompileError.of(
            "MCM-V030",
            f"the simulated period is {period_s!r} s, the report says {period!r} s",
            at=str(path),
        )
    return f"period {units.seconds_text(period)}"


def describe_verification(verification: Verification) -> str:
    """The comparison in the words of the verdict, and what stock session options give."""
    if verification.skipped is None and not verification.outputs:
        return "nothing compared: every output depends on random numbers"
    data: dict[str, Any] = {**verification_data(verification), "structure": None}
    text = verification_sentence(data)
    if verification.stock:
        worst = max(output.max_abs_error for output in verification.stock)
        equal = all(output.bit_equal for output in verification.stock)
        how = "bit-identical" if equal else f"different by up to {worst:g}"
        text += f"; {how} under stock session options"
    elif verification.stock_skipped:
        text += f"; not compared under stock session options: {verification.stock_skipped}"
    return text
