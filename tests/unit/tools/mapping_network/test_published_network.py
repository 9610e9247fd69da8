"""The network of the LCM paper sees no formula, and its record is what the page shows."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mcm_models.mapping_model.data_files import load_data
from mcm_models.mapping_model.data_set import Learned

REPRODUCE = Path(__file__).resolve().parents[4] / "tools" / "reproduce"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(REPRODUCE / "fabrics"))
    monkeypatch.delitem(sys.modules, "lcm_study", raising=False)
    import lcm_published

    return lcm_published


def test_the_page_shows_what_the_record_holds(study: ModuleType) -> None:
    data = load_data(study.DATA)
    record = json.loads(study.RECORD.read_text(encoding="utf-8"))
    assert Learned(**record["learned"]) == data.learned
    for name, (settings, _) in study.VARIANTS.items():
        assert record["settings"][name] == dataclasses.asdict(settings)
    page = study.PAGE.read_text(encoding="utf-8")
    for text in study.sections(data, record).values():
        assert text in page


def test_the_ridge_that_ships_errs_less_than_the_published_network(study: ModuleType) -> None:
    """Otherwise the network should be tried in a mapper."""
    data = load_data(study.DATA)
    found = json.loads(study.RECORD.read_text(encoding="utf-8"))["guesses"]
    whole = range(len(data.graphs))
    rows = [study.tested(data, found[name], whole) for name in (study.WHOLE, "ridge")]
    assert study.difference(*rows)[1] > 0


def test_equal_seeds_give_equal_weights_and_padding_changes_no_answer(study: ModuleType) -> None:
    from lcm_study import published_network as network

    settings = network.PublishedSettings(width=4, layers=1, epochs=2, graphs=1, mappings=2)
    data = load_data(study.DATA)
    # Each shape is a program that takes seconds.
    small = min(data.graphs, key=lambda graph: len(graph.problem.leaf))
    data = dataclasses.replace(data, graphs=(small,) * network.BUCKETS)
    graphs = network.placed_graphs(data, settings)
    first, losses = network.trained(settings, graphs, [0, 1, 2, 3], 0)
    again, _ = network.trained(settings, graphs, [0, 1, 2, 3], 0)
    assert losses[1] < losses[0]
    assert all(np.array_equal(first[name], again[name]) for name in first)
    tight, wide = (
        np.asarray(network.speeds(1, first, network.padded(graphs[:1], shape)))
        for shape in ((graphs[0].op.size, graphs[0].source.size), (100, 200))
    )
    np.testing.assert_allclose(tight, wide, rtol=1e-5)
