"""What the project promises of these experiments, held against what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mcm_compiler.contracts.partition import Floats
from mcm_study.curves import Panel, geometric_mean, mean_and_deviation
from mcm_study.leads import common_seeds, empty_seeds, lead_percent
from mcm_study.methods import CONTROL, DP
from mcm_study.summary import ZERO_SHOT_SAMPLES, annealing_of
from mcm_study.thresholds import TABLE_2_RL, levels_between, levels_of_curve, samples_to

Row = dict[str, Any]
"""`claim`, `bar`, `measured`, and `holds`, which is None where something is not measured yet."""

PROVEN = 1e-3
"""Gap to its bound up to which a partition counts as the optimum."""

WITHIN = 20
"""Samples within which fine-tuning is to reach `LEVEL_SAMPLES` of RL from scratch (MCM, Table 3:
2.60x after 20 samples instead of 423)."""

LEVEL_SAMPLES = 423


def row(claim: str, bar: str, measured: str, holds: bool | None) -> Row:
    """One line of the table."""
    return {"claim": claim, "bar": bar, "measured": measured, "holds": holds}


def lead_row(
    panel: Panel, claim: str, ours: str, theirs: Sequence[str], count: int, percent: float
) -> Row:
    """How far one method leads the better of others after so many samples, in percent.

    Seed by seed. Where someone has found nothing valid at all there is no figure, and the row says
    who; it holds where that is not our method.
    """
    bar = f"at least {percent:g} %"
    leads = lead_percent(panel, ours, theirs, count)
    if leads is not None:
        mean, deviation = mean_and_deviation(leads)
        return row(claim, bar, f"{mean:+.1f} ± {deviation:.1f} %", mean >= percent)
    measured = {ours, *theirs} <= set(panel.methods)
    seeds = common_seeds(panel, (ours, *theirs)) if measured else []
    empty = {name: empty_seeds(panel, name, seeds, count) for name in (ours, *theirs)}
    if not seeds:
        return row(claim, bar, "not measured", None)
    text = ", ".join(f"`{name}` {count}" for name, count in empty.items() if count)
    text = f"nothing valid found: {text} of {len(seeds)} seeds"
    return row(claim, bar, text, empty[ours] == 0)


def control_row(panel: Panel, claim: str, ours: str, theirs: str, count: int) -> Row:
    """How far one method leads what learns nothing, seed by seed; nothing was promised."""
    leads = lead_percent(panel, ours, [theirs], count)
    if leads is None:
        measured = {ours, theirs} <= set(panel.methods)
        return row(claim, "none", "nothing valid found" if measured else "not measured", None)
    mean, deviation = mean_and_deviation(leads)
    return row(claim, "none", f"{mean:+.1f} ± {deviation:.1f} %", True)


def control_rows(panel: Panel, where: str, count: int) -> list[Row]:
    """What learning adds to `dp`, and to the same machinery without updates."""
    return [
        control_row(panel, f"{where}{words} over {other}, {count:,} samples", name, theirs, count)
        for name, words in (
            ("rl", "RL"),
            ("rl-no-prior", "RL without prior and windows"),
            ("zero-shot", "zero-shot"),
            ("everything", "everything on"),
        )
        for other, theirs in (("`dp`", DP), ("the same without updates", name + CONTROL))
        # Zero-shot updates nothing: it is its own control.
        if not (name == "zero-shot" and theirs != DP)
    ]


def optimum_row(panel: Panel, claim: str, method: str, count: int, share: float | None) -> Row:
    """Share of the optimum after so many samples; `share` is None where nothing was promised.

    Where nobody meets the bound the optimum lies between the best that any method knows and the
    bound. So the promise holds where it does by the bound, does not where it does not by the best
    known, and is open in between.
    """
    bar = "none" if share is None else f"at least {100 * share:g} %"
    classical = [panel.classical.get(graph) for graph in panel.graphs]
    if method not in panel.methods or any(found is None for found in classical):
        return row(claim, bar, "not measured", None)
    count = min(count, panel.samples(method, count))
    found = panel.curves(method)[:, count - 1]
    of_bound = found / geometric_mean(np.array([c.bound for c in classical if c]))
    of_known = found / geometric_mean(np.array([panel.best_known(g) for g in panel.graphs]))
    proven = len(solved_graphs(panel))
    text = (
        f"{_percent(of_bound)} of the bound, {_percent(of_known)} of the best known; proven to be "
        f"the optimum on {proven} of {len(classical)}"
    )
    if share is None or of_bound.mean() >= share:
        return row(claim, bar, text, True)
    return row(claim, bar, text, None if of_known.mean() >= share else False)


def solved_graphs(panel: Panel) -> list[str]:
    """Graphs whose optimum is known: some partition meets the bound."""
    return [
        graph
        for graph in panel.graphs
        if graph in panel.classical
        and panel.classical[graph].bound <= panel.best_known(graph) * (1.0 + PROVEN)
    ]


def threshold_row(panel: Panel, claim: str, tuned: str, scratch: str, level: float | None) -> Row:
    """Samples of a fine-tuned policy to a level, over those of RL from scratch: at most half."""
    bar = "at most 0.5 of the samples"
    if level is None or not {tuned, scratch} <= set(panel.methods):
        return row(claim, bar, "not measured", None)
    samples = {name: _mean_samples(panel, name, level) for name in (tuned, scratch)}
    ours, theirs = samples[tuned], samples[scratch]
    text = f"{_samples_text(ours)} against {_samples_text(theirs)}, level {level:.3f}x"
    if ours is None or theirs is None:
        return row(claim, bar, text, ours is not None)
    return row(claim, bar, f"{text}: {ours / theirs:.2f}", ours <= 0.5 * theirs)


def area_row(panel: Panel, claim: str, ours: str, theirs: str) -> Row:
    """Mean of the curve over the first samples, against that of another method."""
    bar = "above"
    if not {ours, theirs} <= set(panel.methods):
        return row(claim, bar, "not measured", None)
    seeds = common_seeds(panel, (ours, theirs))
    first = min(ZERO_SHOT_SAMPLES, *(panel.samples(name, 0) for name in (ours, theirs)))
    areas = {
        name: np.array([panel.curve(name, s)[:first].mean() for s in seeds])
        for name in (ours, theirs)
    }
    mean, deviation = mean_and_deviation(100.0 * (areas[ours] / areas[theirs] - 1.0))
    text = f"{areas[ours].mean():.3f} against {areas[theirs].mean():.3f}"
    return row(claim, bar, f"{text}: {mean:+.1f} ± {deviation:.1f} %", mean > 0.0)


def catch_up_row(panel: Panel, claim: str, tuned: str, scratch: str) -> Row:
    """Whether a fine-tuned policy is within `WITHIN` samples where scratch is after many."""
    bar = f"within {WITHIN} samples"
    if not {tuned, scratch} <= set(panel.methods):
        return row(claim, bar, "not measured", None)
    curves = panel.curves(scratch)
    level = float(curves[:, min(LEVEL_SAMPLES, curves.shape[1]) - 1].mean())
    needed = _mean_samples(panel, tuned, level)
    text = f"{_samples_text(needed)}, level {level:.3f}x"
    return row(claim, bar, text, needed is not None and needed <= WITHIN)


def test_graph_rows(panel: Panel) -> list[Row]:
    """The promises on the 16 test graphs; `panel` is of the comparable ones."""
    long = panel.samples("rl-no-prior", 4000)
    short = min(1000, long)
    at_short = f"{short:,} samples"
    annealing = annealing_of(panel)
    rows = [
        *(
            lead_row(
                panel,
                f"RL without prior and windows over {label}, {count:,} samples",
                "rl-no-prior",
                others,
                count,
                least,
            )
            for label, others, count, least in (
                ("Random", ["random"], short, 10),
                ("SA", annealing, short, 15),
                ("Random", ["random"], long, 4.36),
                ("SA", ["sa"], long, 6.49),
            )
        ),
        lead_row(panel, f"RL over Random, {at_short}", "rl", ["random"], short, 25),
        lead_row(
            panel, f"everything on, over Random, {at_short}", "everything", ["random"], short, 25
        ),
    ]
    rows += control_rows(panel, "", short)
    first_by_place, first_by_curve = first_levels(panel)
    rows += [
        threshold_row(
            panel,
            f"fine-tuned against scratch without prior and windows, first threshold by {name}",
            "fine-tuned-no-prior",
            "rl-no-prior",
            level,
        )
        for name, level in (("place", first_by_place), ("curve", first_by_curve))
    ]
    for suffix, words in (
        ("-no-prior", "without prior and windows"),
        ("-windows", "without prior, with windows"),
        ("", "with prior and windows"),
    ):
        rows += [
            area_row(
                panel,
                f"zero-shot {words} over {label} in the first {ZERO_SHOT_SAMPLES} samples",
                f"zero-shot{suffix}",
                other,
            )
            for label, other in (
                ("RL from scratch", f"rl{suffix}"),
                ("fine-tuned", f"fine-tuned{suffix}"),
                ("Random", "random"),
                ("SA", "sa"),
            )
        ]
    return rows


def first_levels(panel: Panel) -> tuple[float | None, float | None]:
    """The first threshold by place and by curve; None where RL or Random is not measured."""
    levels = all_levels(panel)
    return (levels["place"][0], levels["curve"][0]) if levels else (None, None)


def all_levels(panel: Panel) -> dict[str, list[float]]:
    """The three thresholds in both mappings; empty where RL or Random is not measured."""
    if not {"random", "rl-no-prior"} <= set(panel.methods):
        return {}
    random = panel.curves("random").mean(axis=0)
    scratch: Floats = panel.curves("rl-no-prior").mean(axis=0)
    return {
        "place": levels_between(float(random[min(1000, random.size) - 1]), float(scratch[-1])),
        "curve": levels_of_curve(scratch, TABLE_2_RL),
    }


def bert_rows(panel: Panel, measure: str, package: str) -> list[Row]:
    """The promises on BERT-large in one setting."""
    where = f"BERT-large, {package}, {measure}"
    count = panel.samples("rl", 800)
    rows: list[Row] = []
    for name, words in (("rl", "RL"), ("rl-no-prior", "RL without prior and windows")):
        if measure == "fast model":
            claim = f"{where}: {words} from scratch, share of the optimum, {count} samples"
            rows.append(optimum_row(panel, claim, name, count, 0.95 if name == "rl" else None))
        else:
            rows += [
                lead_row(
                    panel,
                    f"{where}: {words} over {label}, {count} samples",
                    name,
                    [other],
                    count,
                    least,
                )
                for label, other, least in (("Random", "random", 6.11), ("SA", "sa", 5.85))
            ]
    rows += control_rows(panel, f"{where}: ", count)
    if measure == "judge":
        rows += [
            catch_up_row(
                panel,
                f"{where}: fine-tuned{words} at scratch's level after {LEVEL_SAMPLES}",
                f"fine-tuned{suffix}",
                f"rl{suffix}",
            )
            for suffix, words in (("", ""), ("-no-prior", " without prior and windows"))
        ]
    return rows


def _percent(shares: Floats) -> str:
    mean, deviation = mean_and_deviation(100.0 * shares)
    return f"{mean:.1f} ± {deviation:.1f} %"


def _mean_samples(panel: Panel, method: str, level: float) -> float | None:
    """Mean samples to a level over seeds; None where not all get there."""
    needed = [samples_to(curve, level) for curve in panel.curves(method)]
    there = [count for count in needed if count is not None]
    return float(np.mean(there)) if there and len(there) == len(needed) else None


def _samples_text(samples: float | None) -> str:
    return "not all seeds get there" if samples is None else f"{samples:,.0f} samples"
