"""The page of a compiled model: its sections, in the order in which one asks."""

from __future__ import annotations

from collections.abc import Callable

from mcm_compiler.page.answers import answers_of
from mcm_compiler.page.bound_view import bottleneck_section, bound_section
from mcm_compiler.page.contents import Page, Section, linked
from mcm_compiler.page.fabric_view import fabric_section
from mcm_compiler.page.files_view import diagnostics_section, files_section
from mcm_compiler.page.further_views import (
    additions_section,
    host_section,
    sensitivity_section,
    sharding_section,
    state_section,
    verification_section,
)
from mcm_compiler.page.graph_view import graph_section
from mcm_compiler.page.memory_view import memory_section
from mcm_compiler.page.package_view import package_section
from mcm_compiler.page.sources import Compiled
from mcm_compiler.page.timeline_view import timeline_section
from mcm_compiler.report.sentences import model_phrase, search_phrase
from mcm_compiler.report.verdict.claims import verdict_of

SECTIONS: tuple[Callable[[Compiled], Section | None], ...] = (
    bottleneck_section,
    sensitivity_section,
    package_section,
    timeline_section,
    bound_section,
    memory_section,
    graph_section,
    fabric_section,
    sharding_section,
    state_section,
    host_section,
    additions_section,
    verification_section,
    files_section,
    diagnostics_section,
)
"""Each gives its section, or None where the compile has nothing for it."""


def compiled_page(compiled: Compiled) -> Page:
    """The page of a compiled model.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, IndexError: where a report that was not
            checked is not of the published schema.
    """
    report = compiled.report
    model, target = report["model"], report["target"]
    verdict = verdict_of(report)
    facts = (verdict["basis"], model_phrase(report), search_phrase(report))
    found = (section(compiled) for section in SECTIONS)
    sections = tuple(section for section in found if section is not None)
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    return Page(
        f"{model['name']} on {target['name']}",
        facts,
        linked(answers_of(compiled), sections),
        sections,
        (
            f"{verdict['basis'].capitalize()}.",
            f"Model SHA-256 {model['sha256']}, target SHA-256 {target['sha256']}.",
            f"Made with {versions}.",
        ),
    )
