"""Reports of a compile to CI: comparison with a baseline, JUnit file, annotations on GitHub."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from mcm_compiler.ci.annotations import wanted, workflow_commands
from mcm_compiler.cli.output_files import write_with_parents
from mcm_compiler.cli.show import show_diagnostics
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.processes.staging import refuse_irregular

if TYPE_CHECKING:
    from mcm_compiler.ci.baseline import Baseline
    from mcm_compiler.ci.batch import CompileOutcome, Settings


@dataclass(frozen=True)
class Guard:
    """Options of a compile in CI.

    Attributes:
        junit: the XML file to write, or None.
        baseline: the earlier report or output folder, or None.
        allowed: share by which the throughput may fall.
    """

    junit: Path | None
    baseline: Path | None
    allowed: float

    def before(self, folder: PurePath | None) -> Baseline | None:
        """The earlier figures of a model, where there is a baseline.

        Args:
            folder: of the model in the batch, or None for a single model.

        Raises:
            CompileError: MCM-U030 if the baseline as a whole is missing, MCM-U050 if the JUnit file
                would take the place of something that is no file.
        """
        if self.junit is not None:
            refuse_irregular(self.junit)
        if self.baseline is None:
            return None
        from mcm_compiler.ci.baseline import Baseline, report_path

        path = report_path(self.baseline, folder)
        return Baseline.of(path, self.allowed, lambda note: show_diagnostics([note]))

    def report(self, outcomes: Sequence[CompileOutcome], settings: Settings) -> None:
        """Writes the annotations and the JUnit file.

        Raises:
            CompileError: MCM-A002 or MCM-U050 if the file cannot be written.
        """
        annotate((outcome.model, outcome.diagnostics) for outcome in outcomes)
        if self.junit is not None:
            from mcm_compiler.ci.junit import SUITE, compile_cases, junit_xml

            suite = SUITE, settings.target, compile_cases(outcomes)
            write_with_parents(self.junit, junit_xml([suite]))


def annotate(found: Iterable[tuple[str, Sequence[Diagnostic]]]) -> None:
    """Prints GitHub's annotations in a step of GitHub Actions.

    Args:
        found: diagnostics by the name of a model or folder.
    """
    if wanted(os.environ):
        for name, diagnostics in found:
            for line in workflow_commands(name, diagnostics, os.environ):
                click.echo(line, err=True)
