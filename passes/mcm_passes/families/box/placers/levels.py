"""Levels of effort of placing, which `-O0` to `-O3` name."""

from __future__ import annotations

from mcm_compiler.contracts.boxes.placers import PlacerLevel

FIRST_LOOK = PlacerLevel(
    "0",
    "whole clusters around weights, some hundred simulations",
    'portfolio{members="single;local_search{parts=1,robust=false}",robust=false}',
    300,
    10**7,
)
SHORT = PlacerLevel("1", "a short search over pieces of clusters", "portfolio", 3000, 10**8)
DEFAULT = PlacerLevel("2", "the same for about a minute", "portfolio", 20_000, 4 * 10**8)
LONG = PlacerLevel("3", "the same for some minutes", "portfolio", 100_000, 2 * 10**9)
