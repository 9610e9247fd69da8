"""The addition of clusters: what they are, and how plans for them are made."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mcm_compiler.additions import Addition, OtherTargets
from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.contracts.planning import PlanAnswer, PlanRequest
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


def _planned(request: PlanRequest) -> PlanAnswer:
    from mcm_passes.parallelism.clusters.cluster_plan import plan_for_cluster

    return plan_for_cluster(request)


CLUSTERS = Addition(
    other=OtherTargets(
        "a cluster", "MCM-S040", "parallelize", "plan for it", _numbers, planned=_planned
    )
)
"""The component."""
