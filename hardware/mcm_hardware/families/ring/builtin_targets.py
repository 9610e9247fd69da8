"""The rings that come with the compiler; their descriptions are packaged TOML files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from mcm_hardware.families.ring.ring_target import RingTarget


def _text(name: str) -> str:
    return (files("mcm_hardware.families.ring") / "targets" / f"{name}.toml").read_text(
        encoding="utf-8"
    )


@cache
def _packaged(name: str) -> RingTarget:
    return RingTarget.from_text(name, _text(name))


def mcm4() -> RingTarget:
    """4 chips with 64 MiB SRAM."""
    return _packaged("mcm4")


def mcm16() -> RingTarget:
    """16 chips with 64 MiB SRAM."""
    return _packaged("mcm16")


def mcm36() -> RingTarget:
    """36 chips with 64 MiB SRAM: the default, after Xie et al. 2022."""
    return _packaged("mcm36")


def mcm36_small() -> RingTarget:
    """36 chips with 32 MiB SRAM."""
    return _packaged("mcm36-small")


def mcm36_shared() -> RingTarget:
    """36 chips with 64 MiB SRAM that share 64 GB/s each way to the host."""
    return _packaged("mcm36-shared")


def mcm36_stream() -> RingTarget:
    """36 chips with 24 MiB SRAM; weights that do not fit come from off-package memory."""
    return _packaged("mcm36-stream")
