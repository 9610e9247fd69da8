"""What limits the number of pipelines side by side."""

from __future__ import annotations

from typing import Any

import pytest

from mcm_compiler.report.advice.replica_limit import limit_sentence

MIB = 1 << 20


def report(**changes: Any) -> dict[str, Any]:
    """Two pipelines of two chips on a package of four."""
    return {
        "target": {"chips": 4, "sram_bytes": [8 * MIB] * 4},
        "chips_used": 4,
        "chips": [{"weight_bytes": 6 * MIB}, {"weight_bytes": 5 * MIB}],
        "analytic_period_s": 60e-6,
        "options": {"replicas": None, "pins": [], "assignment": None, "forbidden_chips": []},
        "replication": {
            "replicas": 2,
            "chips_each": 2,
            "considered": [count(1, 4, 90e-6), count(2, 2, 61e-6), count(4, 1, None)],
        },
        **changes,
    }


def count(replicas: int, each: int, seconds: float | None, **further: Any) -> dict[str, Any]:
    return {
        "replicas": replicas,
        "chips_each": each,
        "analytic_period_s": seconds,
        "simulated_period_s": None,
        "lower_bound_s": None,
        "bound_proof": None,
        "ruled_out": None,
        **further,
    }


@pytest.mark.parametrize(
    ("larger", "words"),
    [
        (
            {"ruled_out": "MCM-P004"},
            "cannot hold the model (proof MCM-P004): each pipeline would have 8.0 MiB of SRAM, and "
            "the weights take 11.0 MiB as placed",
        ),
        ({"ruled_out": "MCM-P007"}, "cannot run the model (proof MCM-P007)"),
        (
            {"lower_bound_s": 70e-6, "bound_proof": "host_transfers", "seconds": 72e-6},
            "cannot be faster: no less than 70.0 us an inference for what enters from the host and "
            "leaves to it alone, where 60.0 us are reached under the same cost model",
        ),
        (
            {"lower_bound_s": 70e-6, "bound_proof": "windows"},
            "cannot be faster: no less than 70.0 us an inference (proof windows), where 60.0 us "
            "are reached under the same cost model",
        ),
        (
            {"lower_bound_s": 50e-6, "seconds": 66e-6},
            "came to 66.0 us an inference in a first look under the cost model, 2 to 61.0 us",
        ),
        (
            {"seconds": 60.9e-6},
            "came to 60.9 us an inference in a first look under the cost model, 2 to 61.0 us, "
            "which is too little gain for one more copy of all weights",
        ),
        ({}, "may be faster, but no partition was found that fits the SRAM"),
    ],
)
def test_what_stands_against_more(larger: dict[str, Any], words: str) -> None:
    seconds = larger.pop("seconds", None)
    data = report()
    data["replication"]["considered"][2] = count(4, 1, seconds, **larger)
    assert limit_sentence(data) == f"no more than 2: 4 with 1 chip each {words}"


def test_more_of_rounds() -> None:
    data = report()
    data["replication"]["considered"][2] = count(4, 1, None)
    data["replication"]["round"] = 6
    words = "may be faster, but no faster round was found for them"
    assert limit_sentence(data) == f"no more than 2: 4 with 1 chip each {words}"


def test_every_chip_is_taken() -> None:
    data = report()
    data["replication"] |= {"replicas": 4, "chips_each": 1}
    assert limit_sentence(data) == "no more than 4: each has 1 chip, and all 4 chips are taken"


def test_a_number_that_was_asked_for_needs_no_other_reason() -> None:
    """A round has bounds for all numbers, whichever the user asked for."""
    data = report(options={"replicas": 2})
    assert limit_sentence(data) == "2, as asked for; no other number was looked at"


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("replicas", 2, "2, as asked for; no other number was looked at"),
        ("pins", [["a", 0]], "2, because pins bind ops to chips of the package"),
        ("assignment", "cut.csv", "2, because the assignment binds ops to chips of the package"),
        ("forbidden_chips", [3], "2, because chips are left out, so that shares are not alike"),
        ("seed", 1, "2, as the plan of the passes has it"),
    ],
)
def test_nothing_else_was_looked_at(option: str, value: Any, words: str) -> None:
    data = report()
    data["replication"]["considered"] = []
    data["options"][option] = value
    assert limit_sentence(data) == words


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert limit_sentence(report(replication=None)) is None
    assert limit_sentence(report(target={"chips": 1, "sram_bytes": [MIB]})) is None
    assert limit_sentence(report(replication={"replicas": 1}, options=None)) is None
    unlike = report(replication={"replicas": 1, "considered": []})
    assert (limit_sentence(unlike) or "").startswith("1, because the chips of the package are not")
