"""Data sets are read as they were written; damage, tampering and bad labels are refused."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.fabric import MappingProblem
from mcm_compiler.diagnostics import CompileError
from mcm_models.mapping_model import data_files
from mcm_models.mapping_model.data_files import data_digest, load_data, save_data
from tests.generators.mapping_examples import measured_data, measured_graph


def _code(path: Path) -> str:
    with pytest.raises(CompileError) as caught:
        load_data(path)
    return caught.value.diagnostics[0].code


def _equal(left: MappingProblem, right: MappingProblem) -> bool:
    return all(
        np.array_equal(getattr(left, field.name), getattr(right, field.name))
        for field in dataclasses.fields(left)
    )


def _rewritten(path: Path, name: str, content: bytes) -> None:
    """Puts other bytes in the place of one array."""
    with zipfile.ZipFile(path) as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    parts[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for entry, data in parts.items():
            archive.writestr(entry, data)


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=array.dtype == object)
    return stream.getvalue()


def test_what_was_saved_is_read_back(tmp_path: Path) -> None:
    data = measured_data()
    save_data(tmp_path / "d.npz", data)
    found = load_data(tmp_path / "d.npz")
    assert found.learned == data.learned
    assert found.seed == data.seed
    assert data_digest(found) == data_digest(data) != data_digest(measured_data(2))
    assert found.measurements == data.measurements == 12
    for name in ("kind", "switch", "channel"):
        assert np.array_equal(getattr(found.fabric, name), getattr(data.fabric, name))
    assert found.fabric.window_flits == data.fabric.window_flits
    for left, right in zip(found.graphs, data.graphs, strict=True):
        assert _equal(left.problem, right.problem)
        assert left.family == right.family
        for name in ("period_cycles", "latency_cycles", "error", "origin"):
            assert np.array_equal(getattr(left, name), getattr(right, name))
        assert np.array_equal(left.mappings.site, right.mappings.site)
        assert np.array_equal(left.mappings.turn, right.mappings.turn)


def test_equal_data_make_equal_files(tmp_path: Path) -> None:
    save_data(tmp_path / "a", measured_data())
    save_data(tmp_path / "b", measured_data())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no archive"])
def test_other_files_are_no_data_sets(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "d").write_bytes(content)
    assert _code(tmp_path / "d") == "MCM-M054"
    assert _code(tmp_path / "none") == "MCM-M054"


@pytest.mark.parametrize(
    "array", [np.array([{"a": 1}], dtype=object), np.array(["text"]), np.zeros((2, 2)), np.zeros(0)]
)
def test_arrays_of_other_sorts_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    save_data(tmp_path / "d", measured_data())
    _rewritten(tmp_path / "d", "card.npy", _npy(array))
    assert _code(tmp_path / "d") == "MCM-M054"


def test_no_memory_is_taken_for_what_a_header_claims(tmp_path: Path) -> None:
    save_data(tmp_path / "d", measured_data())
    header = _npy(np.zeros(4)).replace(b"(4,), }", b"(1000000000000,), }")
    _rewritten(tmp_path / "d", "period_cycles.npy", header)
    assert _code(tmp_path / "d") == "MCM-M054"


def test_a_header_that_nobody_closes_is_told(tmp_path: Path) -> None:
    save_data(tmp_path / "d", measured_data())
    header = _npy(np.zeros(4)).replace(b"(4,), }", b"(4,),  ")
    _rewritten(tmp_path / "d", "card.npy", header)
    assert _code(tmp_path / "d") == "MCM-M054"


def test_more_than_the_limit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_data(tmp_path / "d", measured_data())
    monkeypatch.setattr(data_files, "MAX_BYTES", 100)
    assert _code(tmp_path / "d") == "MCM-M054"


@pytest.mark.parametrize("name", ["period_cycles", "site", "flits", "fabric_kind"])
def test_changed_numbers_are_noticed(tmp_path: Path, name: str) -> None:
    save_data(tmp_path / "d", measured_data())
    with zipfile.ZipFile(tmp_path / "d") as archive, archive.open(f"{name}.npy") as file:
        array = np.lib.format.read_array(io.BytesIO(file.read()))
    array[0] += 1
    _rewritten(tmp_path / "d", f"{name}.npy", _npy(array))
    assert _code(tmp_path / "d") == "MCM-M055"


def test_a_changed_card_is_noticed(tmp_path: Path) -> None:
    save_data(tmp_path / "d", measured_data())
    with zipfile.ZipFile(tmp_path / "d") as archive, archive.open("card.npy") as file:
        card = np.lib.format.read_array(io.BytesIO(file.read())).tobytes()
    changed = card.replace(b'"lowering": "lowering"', b'"lowering": "other"')
    assert changed != card
    _rewritten(tmp_path / "d", "card.npy", _npy(np.frombuffer(changed, np.uint8)))
    assert _code(tmp_path / "d") == "MCM-M055"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("period_cycles", np.nan),
        ("period_cycles", np.inf),
        ("period_cycles", 39.0),
        ("latency_cycles", -1.0),
        ("error", np.nan),
        ("origin", 3),
    ],
)
def test_labels_that_cannot_be_are_refused(tmp_path: Path, name: str, value: float) -> None:
    graph = measured_graph(0)
    labels = getattr(graph, name).copy()
    labels[1] = value
    bad = dataclasses.replace(graph, **{name: labels})
    save_data(tmp_path / "d", dataclasses.replace(measured_data(), graphs=(bad,)))
    assert _code(tmp_path / "d") == "MCM-M056"


def test_illegal_mappings_are_refused(tmp_path: Path) -> None:
    graph = measured_graph(0)
    graph.mappings.site[2, 0] = graph.mappings.site[2, 1]
    save_data(tmp_path / "d", dataclasses.replace(measured_data(), graphs=(graph,)))
    assert _code(tmp_path / "d") == "MCM-M056"


@pytest.mark.parametrize(
    "change",
    [
        {"memory_bytes": "many"},
        {"window_flits": [16]},
        {"rows": None},
        {"kind": np.full(24, 7, np.int32)},
        {"channel": np.zeros(3, np.int32)},
    ],
)
def test_a_fabric_of_no_numbers_is_none(tmp_path: Path, change: dict[str, object]) -> None:
    data = measured_data()
    fabric = dataclasses.replace(data.fabric, **change)
    # With a digest that is right: whoever writes a file can work one out.
    save_data(tmp_path / "d.npz", dataclasses.replace(data, fabric=fabric))
    assert _code(tmp_path / "d.npz") == "MCM-M054"
