"""Clusters: loaded by name or path, and the addition that says what they are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mcm_compiler.additions import Addition, OtherTargets, other_targets
from mcm_compiler.components.target_loading import Package, load_package, refused, registered
from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.registry import TARGETS
from mcm_compiler.text.units import bytes_text, count_text


def _numbers(target: ClusterTarget) -> tuple[dict[str, Any], list[str]]:
    cluster = target.cluster
    return {"cluster": asdict(cluster)}, [
        f"{count_text(cluster.servers, 'server')} of "
        f"{count_text(cluster.devices_per_server, 'device')}",
        f"{bytes_text(cluster.memory_bytes)} usable on each",
        f"{cluster.intra_bytes_per_s / 1e9:g} GB/s inside a server",
        f"{cluster.inter_bytes_per_s / 1e9:g} GB/s between servers",
    ]


CLUSTERS = Addition(
    other=OtherTargets("a cluster", "MCM-S040", "parallelize", "plan for it", _numbers)
)
"""The component."""


def load_cluster(name_or_path: str) -> ClusterTarget:
    """The cluster of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-S041 for what is no cluster.
    """
    package: Package = load_package(name_or_path)
    if isinstance(package, ClusterTarget):
        return package
    clusters = ", ".join(
        name for name in ("config-a", "config-b", "config-c") if name in registered(TARGETS)
    )
    other = other_targets(package)
    what, verb = ("a package of chips", "compile") if other is None else (other.words, other.verb)
    raise CompileError.of(
        "MCM-S041",
        f"target {quote(package.name)} is {what}, not a cluster",
        at=f"target {quote(name_or_path)}",
        hint=f"take a cluster ({clusters or 'none is installed'}), or a description with "
        f'family = "cluster"; for this target there is `mcmc {verb}`',
    )


def load_plannable(name_or_path: str) -> Target | ClusterTarget:
    """The package of chips or the cluster of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-D001 for a box.
    """
    package: Any = load_package(name_or_path)
    other = other_targets(package)
    if other is not None and not isinstance(package, ClusterTarget):
        raise refused(package, other, name_or_path, "planned")
    return package
