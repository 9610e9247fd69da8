"""Codes MCM-X###: passes and plug-ins."""

from __future__ import annotations

from mcm_compiler.diagnostic_catalog.entry import CatalogEntry

ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry(
        "MCM-X001",
        "name registered twice",
        "Two distributions or files register a component of the same kind under the same name.\n"
        "Which of them would run is left to chance, so neither does. Rename one, or uninstall its\n"
        "distribution.",
    ),
    CatalogEntry(
        "MCM-X002",
        "pass without its facts",
        "A pass requires a fact (a fusion plan, costs, a partition) that no earlier pass of the\n"
        "pipeline provides. The whole pipeline is checked before anything runs. The hint names\n"
        "passes that provide it; mcmc passes --format json lists what each requires and provides.",
    ),
    CatalogEntry(
        "MCM-X003",
        "component cannot be imported",
        "A component is registered, but the import of its module fails: its distribution is\n"
        "damaged, or a package that it needs is not installed. Reinstall or remove the\n"
        "distribution.",
    ),
    CatalogEntry(
        "MCM-X004",
        "plug-in file fails",
        "The file given to --plugin does not exist, is not Python, or raises while it is\n"
        "imported. It is run once; its decorators register its components.",
    ),
    CatalogEntry(
        "MCM-X005",
        "pass broke an invariant",
        "After every pass the compiler checks that nodes and values have unique names, that nodes\n"
        "stand in topological order, and that the pass provided what it declares. A pass that\n"
        "breaks this is named. The fault is the pass's, not the model's; mcmc opt --print-after\n"
        "shows what it did.",
    ),
    CatalogEntry(
        "MCM-X006",
        "pass failed",
        "A pass raised an exception that is not a diagnostic. The fault is the pass's, not the\n"
        "model's. Run again with the environment variable MCMC_DEBUG=1 to see the stack trace,\n"
        "and report it to whoever provides the pass.",
    ),
)
