"""The data on record, and what a run of a part adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from peer_cases.programs import Program

Data = dict[str, Any]


def described(programs: Sequence[Program], installed: Mapping[str, Any]) -> Data:
    """What the page tells of programs, by name."""
    return {
        one.name: {
            "distribution": one.distribution,
            "version": one.version(),
            "how": one.how,
            "checks": one.checks,
            "install": installed.get(one.name),
        }
        for one in programs
    }


def merged(known: Data, found: Data, order: Sequence[str], names: Sequence[str]) -> Data:
    """Known data with what was found in its place.

    Args:
        known: on record; empty where there is none.
        found: with some models and programs.
        order: of all programs.
        names: of all models.
    """
    programs = {**known.get("programs", {}), **found["programs"]}
    models = {model["model"]: model for model in known.get("models", [])}
    for model in found["models"]:
        rows = {**models.get(model["model"], {}).get("rows", {}), **model["rows"]}
        models[model["model"]] = model | {"rows": {n: rows[n] for n in order if n in rows}}
    return (
        {key: known[key] for key in ("set",) if key in known}
        | found
        | {
            "programs": {name: programs[name] for name in order if name in programs},
            "models": [models[name] for name in names if name in models],
        }
    )
