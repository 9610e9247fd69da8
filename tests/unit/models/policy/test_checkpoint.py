"""Checkpoints come from anywhere: what is read is what was written, or a diagnostic."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from mcm_compiler.diagnostics import CompileError
from mcm_models.cards import CARD_KEY
from mcm_models.policy.features import FEATURES_VERSION
from mcm_models.policy.layout import POLICIES, PolicyCard, PolicyLayout, initial_weights

LAYOUT = PolicyLayout(layers=1, width=8, head_width=8, knots=4)
CARD = PolicyCard(LAYOUT, "no-prior", 0.0, "engine", {"seed": 3})


def written(weights=None, card: str | None = None) -> bytes:
    arrays = initial_weights(LAYOUT, 0) if weights is None else weights
    return save(arrays, metadata={CARD_KEY: CARD.to_json() if card is None else card})


def code_of(data: bytes) -> str:
    with pytest.raises(CompileError) as caught:
        POLICIES.parse(data, "x.safetensors")
    (found,) = caught.value.diagnostics
    assert found.hint
    assert "x.safetensors" in found.at
    return found.code


def changed(**fields) -> str:
    data = {**json.loads(CARD.to_json()), **fields}
    return json.dumps(data)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "policy.safetensors"
    weights = initial_weights(LAYOUT, 7)
    POLICIES.save(path, weights, CARD)
    loaded, card = POLICIES.load(path)
    assert card == CARD
    assert loaded.keys() == weights.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(loaded[name], array)
    first = path.read_bytes()
    POLICIES.save(path, weights, CARD)
    assert path.read_bytes() == first
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_other_features_are_refused():
    layout = dataclasses.asdict(LAYOUT)
    other = changed(layout={**layout, "features_version": FEATURES_VERSION + 1})
    assert code_of(written(card=other)) == "MCM-L002"


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 200, -1])
def test_a_file_that_is_cut_off_is_refused(length):
    assert code_of(written()[:length]) == "MCM-L001"


@pytest.mark.parametrize("length", [0, 1, 2**31, 2**62, 2**64 - 1])
def test_a_header_of_any_length_is_refused(length):
    assert code_of(length.to_bytes(8, "little") + written()[8:]) == "MCM-L001"


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"__metadata__": 3}',
        b'{"__metadata__": {"mcm.card": 3}}',
        b'{"__metadata__": {"mcm.card": "[]"}}',
    ],
)
def test_a_header_of_anything_is_refused(header):
    assert code_of(len(header).to_bytes(8, "little") + header + b"\0" * 64) == "MCM-L001"


@pytest.mark.parametrize(
    "card",
    [
        "",
        "[" * 200_000,
        changed(layout=None),
        changed(layout={"layers": 10**9}),
        changed(layout={"layers": 1.0}),
        changed(layout={"layers": True}),
        changed(layout={"no_such": 1}),
        changed(prior="NaN"),
        changed(prior=float("nan")),
        changed(prior=-1),
        changed(trained_on=[]),
    ],
)
def test_a_card_of_anything_is_refused(card):
    assert code_of(written(card=card)) == "MCM-L001"


def _missing(weights):
    del weights["head/bias0"]


def _unknown(weights):
    weights["head/more"] = np.zeros(3, np.float32)


def _doubles(weights):
    weights["head/bias0"] = weights["head/bias0"].astype(np.float64)


def _wholes(weights):
    weights["head/bias0"] = weights["head/bias0"].astype(np.int32)


def _transposed(weights):
    weights["embed/kernel"] = np.ascontiguousarray(weights["embed/kernel"].T)


def _not_a_number(weights):
    weights["head/hidden"][2, 3] = np.nan


def _infinite(weights):
    weights["head/hidden"][2, 3] = -np.inf


@pytest.mark.parametrize(
    "spoil", [_missing, _unknown, _doubles, _wholes, _transposed, _not_a_number, _infinite]
)
def test_weights_that_do_not_fit_the_card_are_refused(spoil):
    weights = initial_weights(LAYOUT, 0)
    spoil(weights)
    assert code_of(written(weights)) == "MCM-L003"


def test_a_card_for_another_shape_is_refused():
    layout = dataclasses.asdict(dataclasses.replace(LAYOUT, layers=4096, width=4096))
    assert code_of(written(card=changed(layout=layout))) == "MCM-L003"


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=8),
    st.integers(0, 1 << 30),
)
def test_a_damaged_file_is_read_whole_or_refused(changes, cut):
    data = bytearray(written())
    size = len(data) if cut % 3 else cut % len(data)
    for place, value in changes:
        # Most damage goes to the header, where the structure is.
        data[place % (1500 if place % 2 else len(data))] = value
    refused = ""
    try:
        weights, card = POLICIES.parse(bytes(data[:size]), "x.safetensors")
    except CompileError as error:
        refused = error.diagnostics[0].code
    if refused:
        assert refused in {"MCM-L001", "MCM-L002", "MCM-L003"}
    else:
        assert {name: array.shape for name, array in weights.items()} == card.layout.shapes()
        assert all(np.isfinite(array).all() for array in weights.values())


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(CompileError) as caught:
            POLICIES.load(path)
        assert caught.value.diagnostics[0].code == "MCM-L001"


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "policy.safetensors"
    POLICIES.save(path, initial_weights(LAYOUT, 0), CARD)
    with pytest.raises(CompileError) as caught:
        dataclasses.replace(POLICIES, most_bytes=100).load(path)
    assert caught.value.diagnostics[0].code == "MCM-L001"
