"""The packages with other topologies than the one-way ring; described in TOML files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from mcm_hardware.families.package.package_target import TopologyPackage


@cache
def _packaged(name: str) -> TopologyPackage:
    text = (files("mcm_hardware.families.package") / "targets" / f"{name}.toml").read_text(
        encoding="utf-8"
    )
    return TopologyPackage.from_text(name, text)


def mesh36() -> TopologyPackage:
    """6 by 6 chips of `mcm36` in a mesh."""
    return _packaged("mesh36")


def torus36() -> TopologyPackage:
    """6 by 6 chips of `mcm36` in a torus."""
    return _packaged("torus36")


def simba36() -> TopologyPackage:
    """6 by 6 chips with 2 MiB SRAM in a mesh, after Shao et al. 2019."""
    return _packaged("simba36")
