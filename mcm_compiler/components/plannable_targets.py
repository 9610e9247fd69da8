"""Targets that plans are made for: packages of chips, and clusters."""

from __future__ import annotations

from typing import Any

from mcm_compiler.additions import other_targets
from mcm_compiler.components.target_loading import load_package, refused, registered
from mcm_compiler.contracts.described import Described
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.registry import TARGETS

_VERB = "parallelize"


def load_cluster(name_or_path: str) -> Any:
    """The cluster of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-S041 for what is no cluster.
    """
    package = load_package(name_or_path)
    other = other_targets(package)
    if other is not None and other.verb == _VERB:
        return package
    clusters = ", ".join(
        name for name in ("config-a", "config-b", "config-c") if name in registered(TARGETS)
    )
    what, verb = ("a package of chips", "compile") if other is None else (other.words, other.verb)
    raise CompileError.of(
        "MCM-S041",
        f"target {quote(package.name)} is {what}, not a cluster",
        at=f"target {quote(name_or_path)}",
        hint=f"take a cluster ({clusters or 'none is installed'}), or a description with "
        f'family = "cluster"; for this target there is `mcmc {verb}`',
    )


def load_plannable(name_or_path: str) -> Described:
    """The package of chips or the cluster of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-D001 for a box.
    """
    package = load_package(name_or_path)
    other = other_targets(package)
    if other is not None and other.verb != _VERB:
        raise refused(package, other, name_or_path, "planned")
    return package
