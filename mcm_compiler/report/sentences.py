"""Sentences that the Markdown and the terminal report share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcm_compiler.diagnostics import quote
from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT
from mcm_compiler.report.verdict.assumed_trips import assumption_sentence
from mcm_compiler.text.units import count_text, percent_text, seconds_text

MODELS_NAMED = 4
"""Models of one pipeline whose chips are listed in a sentence."""

KINDS_NAMED = 3
"""Types of ops by which a kernel is named; one of more types has the name of its dominant op."""

PLACES_NAMED = 4
"""Chips that are named for each of them."""


def routing_phrase(report: Mapping[str, Any]) -> str:
    """How tensors get to chips that are not neighbours."""
    family = report["target"].get("family")
    return f"{report['routing']} routing" if family is None else f"routes of the family {family}"


def kernel_phrase(op: Mapping[str, Any]) -> str:
    """A kernel by its dominant op and its layer."""
    if op["ops"] == 1:
        return quote(op["name"])
    kinds = op.get("kinds")  # reports of earlier releases lack it
    if not kinds:
        return f"{op['ops']} fused ops up to {quote(op['name'])}"
    short = len(kinds) <= KINDS_NAMED
    what = "+".join(kinds) if short else f"{kinds[0]} and {op['ops'] - 1} more ops"
    return f"{what} of {quote(op['layer'])}"


def learned_sentence(report: Mapping[str, Any]) -> str | None:
    """Sentence on the gain of learned search; None where none has run."""
    gain = report.get("learned_gain")  # reports of the first release lack it
    if gain is None:
        return None
    if gain == 0:
        return "nothing better than what classical search found"
    return f"{percent_text(gain)} more throughput than the best that classical search found"


def strategy_phrase(report: Mapping[str, Any], none: str) -> str:
    """The strategy, and the member of it that found the partition; `none` where none ran."""
    found_by = report.get("found_by")  # reports of the first release lack it
    by = f" ({found_by})" if found_by else ""
    return f"{report['strategy'] or none}{by}"


def search_phrase(report: Mapping[str, Any]) -> str:
    """How the partition was found: strategy, routing and seed."""
    return f"{strategy_phrase(report, '-')}, {routing_phrase(report)}, seed {report['seed']}"


def options_phrase(report: Mapping[str, Any]) -> str | None:
    """The options that were given, with their sources; None where all have their defaults.

    Such as `level 0 (command line, over mcmc.toml), seed 7 (mcmc.toml)`.
    """
    options = report.get("options") or {}

    def named(name: str) -> str:
        value = options.get(name)
        return name if value is None or isinstance(value, dict | list) else f"{name} {value}"

    sources: Mapping[str, str] = report.get("option_sources") or {}
    return ", ".join(f"{named(name)} ({source})" for name, source in sources.items()) or None


def model_phrase(report: Mapping[str, Any]) -> str:
    """The size of the source model."""
    ops = count_text(report["model"]["ops"], "op")
    text = f"{ops} in the source file, constants not counted"
    placed = [row["ops"] for row in report["chips"] or ()]
    if not placed or None in placed:
        return text
    first = " of the first replica" if replication_phrase(report) else ""
    return f"{text}; {sum(placed):,} on the chips{first}, rewritten, copies and relays included"


def replication_phrase(report: Mapping[str, Any]) -> str | None:
    """How many replicas share the package; None where there is one."""
    replication = report.get("replication")  # reports of the first release lack it
    if replication is None or replication["replicas"] == 1:
        return None
    chips, classes = count_text(replication["chips_each"], "chip"), round_of(report)
    rounds = f", {classes} inferences a round" if classes > 1 else ""
    return f"{replication['replicas']} replicas of up to {chips} each{rounds}"


def round_of(report: Mapping[str, Any]) -> int:
    """Inferences that each pipeline computes together."""
    return int((report.get("replication") or {}).get("round", 1))


def role_places(report: Mapping[str, Any]) -> dict[int, list[int]]:
    """Chips of the package by the chip whose model they run; none where one pipeline has all."""
    replication = report.get("replication")
    places: dict[int, list[int]] = {}
    if replication is not None and replication["replicas"] != 1:
        for role in replication.get("chips", []):  # reports of the first releases lack it
            places.setdefault(role["runs"], []).append(role["chip"])
    return places


def role_sentence(report: Mapping[str, Any]) -> str | None:
    """Which chips run what; None where one pipeline has all of them.

    Every chip stands there while the models of one pipeline are few; `report.json` always has all.
    """
    places = role_places(report)
    if not places:
        return None
    shown = sorted(places.items())[:MODELS_NAMED]
    alike = "; ".join(f"chips {_some(chips)} run the model of chip {k}" for k, chips in shown)
    rest = len(places) - len(shown)
    return f"{alike}; likewise for {count_text(rest, 'further model')}" if rest else alike


def _some(chips: list[int]) -> str:
    """Chips, the first few and the last, such as `0, 2, 4, ..., 34`."""
    if len(chips) <= PLACES_NAMED:
        return ", ".join(map(str, chips))
    return f"{', '.join(map(str, chips[: PLACES_NAMED - 1]))}, ..., {chips[-1]}"


def shared_sentence(links: list[dict[str, Any]] | None) -> str | None:
    """How busy the channels are that all chips share; None where there are none."""
    ways = {
        (HOST_ROOT, HOST): "from the host",
        (HOST, HOST_ROOT): "to the host",
        (OFF_PACKAGE_ROOT, OFF_PACKAGE): "from off-package memory",
    }
    found = {(link["source"], link["destination"]): link for link in links or []}
    parts = [
        f"{word} {percent_text(found[ends]['utilisation'])} busy"
        for ends, word in ways.items()
        if ends in found
    ]
    return ", ".join(parts) or None


def bound_sentence(report: Mapping[str, Any]) -> str:
    """The bound with its argument, the kind of proof, and the model that it is proven under."""
    if report["lower_bound_s"] is None:
        return assumption_sentence(report) or "-"
    text = f"{seconds_text(report['lower_bound_s'])}: {report['bound_argument']}"
    proof = report.get("bound_proof")  # reports of the first release lack it
    return f"{text} ({bound_status(report, proof)})"


def bound_status(report: Mapping[str, Any], proof: str | None) -> str:
    """The kind of proof of a bound, and the model that it holds under."""
    under = f"under the analytic cost model '{report['cost_model']}'"
    return f"proven by {proof} {under}" if proof else f"stated {under}"


DIVISION_SECTION: Final = "divisions"
"""Name of the section about the bound over all divisions."""


def division_sentence(report: Mapping[str, Any]) -> str:
    """The bound over all divisions with its argument; empty where none is known."""
    found = report.get(DIVISION_SECTION)
    if found is None:
        return ""
    return f"{seconds_text(found['bound_s'])}: {found['argument']}"


def simulator_sentence(simulator: str, figures: Mapping[str, Any]) -> str:
    """The simulator, how many inferences it played, and from which on they were alike.

    Args:
        simulator: its name.
        figures: a report or a simulation, with `inferences` and `steady_from`.
    """
    played = "round" if figures.get("round", round_of(figures)) > 1 else "inference"
    text = f"simulator {simulator}, {count_text(figures['inferences'], played)}"
    steady = figures.get("steady_from")  # reports of the first release lack it
    text = text if steady is None else f"{text}, steady from number {steady}"
    sides = figures.get("replication") or figures
    if (few := sides.get("simulated_replicas")) is None:
        return text
    return f"{text}; {few} of {sides['replicas']} replicas simulated, with the transfers of all"


def diagnostics_sentence(diagnostics: list[dict[str, Any]]) -> str:
    """How many warnings and notes there are."""
    warnings = sum(1 for d in diagnostics if d["severity"] == "warning")
    notes = sum(1 for d in diagnostics if d["severity"] == "note")
    parts = [count_text(warnings, "warning")] if warnings else []
    parts += [count_text(notes, "note")] if notes else []
    return ", ".join(parts) or "none"


def changes_sentence(report: Mapping[str, Any]) -> str:
    """Sentence on the ops added to make the partition executable."""
    rows = (
        ("clones", "cloned op", "cloned ops"),
        ("relays", "relay", "relays"),
        ("sharded_operators", "sharded operator", "sharded operators"),
    )
    parts = [count_text(len(report[k]), one, many) for k, one, many in rows if report[k]]
    return ", ".join(parts) or "none"


def place_name(chip: int) -> str:
    """An end of a link."""
    names = {
        HOST: "host",
        HOST_ROOT: "host, for all chips",
        OFF_PACKAGE: "off-package memory",
        OFF_PACKAGE_ROOT: "off-package memory, for all chips",
    }
    return names.get(chip, f"chip {chip}")


def resource_name(source: int, destination: int) -> str:
    """A channel in words."""
    if source == HOST_ROOT:
        return "the channel from the host that all chips share"
    if destination == HOST_ROOT:
        return "the channel to the host that all chips share"
    if source == OFF_PACKAGE_ROOT:
        return "the channel from off-package memory that all chips share"
    if source == HOST:
        return f"the host's link into chip {destination}"
    if source == OFF_PACKAGE:
        return f"the channel from off-package memory to chip {destination}"
    if destination == HOST:
        return f"the link of chip {source} to the host"
    return f"the link from chip {source} to chip {destination}"
