"""What a report says of states in words."""

from __future__ import annotations

import pytest

from mcm_compiler.report.state_section import serving_claim, size_table, state_sentences

FACTS = {
    "held": [{"past": "past", "present": "present", "chip": 0}],
    "chips": [{"chip": 0, "sequence_bytes": 1024, "held_bytes": 2048}],
    "sequences": 2,
    "needed_sequences": 3,
    "fitting_sequences": 1024,
    "pipelines": 1,
    "tokens_per_step": 1,
    "batch": 1,
    "tokens_per_s": 1000.0,
    "tokens_per_s_alone": 500.0,
    "package_sequences": 4,
    "most_tokens_per_s": 1500.0,
}


@pytest.mark.parametrize(
    ("more", "crosses"),
    [
        ({}, "none crosses a host link"),
        # The host may run the op that reads the past.
        ({"host_fallback": {}}, "none crosses a host link but in round trips"),
    ],
)
def test_what_crosses_the_link_of_the_host(more, crosses):
    said = dict(state_sentences({"latency_s": 2e-3, "states": FACTS, **more}))
    assert said["states"] == f"1 state on 1 chip, up to 1.0 KiB of a sequence on one; {crosses}"
    assert said["sequences"] == "2 sequences in flight; 3 keep a pipeline busy, 1,024 would fit"
    assert said["one sequence"] == "500 tokens/s by itself, 1 token every 2.00 ms"


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (1500.0, "at most 1,500 tokens/s"),
        (2000.0, "at most 2,000 tokens/s: memory of the package for 4 sequences at this latency"),
    ],
)
def test_what_limits_the_tokens_of_all_sequences(most, said):
    facts = {**FACTS, "most_tokens_per_s": most}
    assert dict(state_sentences({"latency_s": 2e-3, "states": facts}))["bound"] == said


WAITS = {"tpot_s": 4e-3, "ttft_s": 0.1, "context": 32, "users": 3, "limited_by": "memory"}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "up to 3 users that fit in memory"),
        ({"ttft": 1.0, "tpot": 5e-3}, "up to 3 users within tpot 5.00 ms and ttft 1.00 s"),
    ],
)
def test_users_and_what_they_wait_for(limits, said):
    headline, details = serving_claim({"states": {**FACTS, **WAITS, "limits": limits}})
    assert headline == said
    assert details == [
        "with those in flight a token every 4.00 ms for each",
        "the first after 100 ms (prompt of 32 tokens, read 1 at a time)",
        "tokens/s are limited by memory for caches",
    ]


SIZE = {"batch": 2, "context": 8192, "status": "estimated", "fitting_sequences": 1000,
        "tokens_per_s": 1234.0, "tpot_s": 2e-3, "within_limits": True}  # fmt: skip
FULL = {**SIZE, "fitting_sequences": 0, "tokens_per_s": None, "tpot_s": None,
        "within_limits": False}  # fmt: skip


def test_batches_and_contexts_as_a_table():
    assert size_table({"states": {"sizes": [SIZE, FULL]}}) == [
        ("2", "8,192", "1,234", "2.00 ms", "1,000", "yes", "estimated"),
        ("2", "8,192", "-", "-", "0", "no", "estimated"),
    ]
    assert size_table({}) == size_table({"states": FACTS}) == []


def test_nothing_is_said_without_states():
    assert state_sentences({}) == []
    assert serving_claim({}) is None
    assert serving_claim({"states": FACTS}) is None  # a report of an earlier release
