"""The built-in levels of effort, `-O0` to `-O3`."""

from __future__ import annotations

from mcm_compiler.contracts.levels import Level

FIRST_LOOK = Level(
    name="0",
    summary="dp along one order: a first look",
    strategy="dp{orders=1}",
    effort_s=1.0,
    most_evaluations=10_000,
    unit_evaluations=10**8,
    further=0,
    judged_pipelines=False,
    divisions=0,
    mappings=2_000,
    measured_mappings=1,
    objective_strategy="frontier{ideals=5000,windows=200000,labels=40000}",
    placer='portfolio{members="single;local_search{parts=1,robust=false}",robust=false}',
    placements=300,
    placement_ops=10**7,
)

CONTIGUOUS = Level(
    name="1",
    summary="dp: the best contiguous cuts of several orders",
    strategy="dp",
    effort_s=1.0,
    most_evaluations=10_000,
    unit_evaluations=10**8,
    further=0,
    divisions=1,
    mappings=20_000,
    measured_mappings=3,
    objective_strategy="frontier{windows=500000,labels=100000}",
    placements=3000,
    placement_ops=10**8,
)

DEFAULT = Level(
    name="2",
    summary="portfolio: proven optima where that is cheap, else a few seconds of search (default)",
    strategy="portfolio",
    effort_s=5.0,
    most_evaluations=40_000,
    unit_evaluations=2 * 10**7,
    rounds=12,
)

LONG = Level(
    name="3",
    summary="a longer portfolio with the simulator in the loop",
    strategy='portfolio{members="dp;cpsat{ideals=500000};local_search{simulated=true};multilevel;'
    "multilevel{heat=0.1,tries=24,patience=2};reorder{start=dp};reorder{start=known};"
    'reorder{start=known,tolerance=0.05}",slack=1}',
    effort_s=60.0,
    gap=0.0,
    divisions=6,
    most_evaluations=200_000,
    unit_evaluations=6 * 10**7,
    rounds=24,
    mappings=1_000_000,
    measured_mappings=64,
    measured_hops=2 * 10**10,
    placements=100_000,
    placement_ops=2 * 10**9,
)
