"""The clusters that come with the compiler; their descriptions are packaged TOML files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from mcm_hardware.families.cluster.cluster_package import ClusterPackage


def _text(name: str) -> str:
    return (files("mcm_hardware.families.cluster") / "targets" / f"{name}.toml").read_text(
        encoding="utf-8"
    )


@cache
def _cluster(name: str) -> ClusterPackage:
    return ClusterPackage.from_text(name, _text(name))


def config_a() -> ClusterPackage:
    """2 servers with 8 V100, after Wang et al. 2020."""
    return _cluster("config-a")


def config_b() -> ClusterPackage:
    """3 servers with 8 V100."""
    return _cluster("config-b")


def config_c() -> ClusterPackage:
    """4 servers with 8 V100."""
    return _cluster("config-c")
