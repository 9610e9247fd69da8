"""Rings of fabrics that come with the compiler; their descriptions are packaged TOML files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import cast

from mcm_compiler.contracts.target import Target, TargetFamily
from mcm_compiler.registry import TARGET_FAMILIES


@cache
def _packaged(name: str) -> Target:
    """By the ring's own reader, which this room finds by name."""
    text = (files("mcm_hardware.families.fabric") / "targets" / f"{name}.toml").read_text(
        encoding="utf-8"
    )
    return cast("TargetFamily", TARGET_FAMILIES.get("ring"))(name, text)


def mcm36_fabric() -> Target:
    """36 fabrics of 16 x 16 switches on a ring."""
    return _packaged("mcm36-fabric")


def mcm48_fabric() -> Target:
    """48 fabrics of 20 x 20 switches on a ring."""
    return _packaged("mcm48-fabric")
