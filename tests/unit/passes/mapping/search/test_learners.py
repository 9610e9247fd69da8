from __future__ import annotations

import pytest

from mcm_compiler.components import extras
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_passes.mapping.search.learners import runnable
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.solving.levels import DEFAULT, LONG


@pytest.fixture
def without_learning(monkeypatch):
    monkeypatch.setitem(extras.MODULES, extras.LEARN, ("no_such_module", "nor_this_one"))


def test_nothing_is_left_out_where_all_is_installed():
    strategy = strategy_of(LONG.strategy)
    assert runnable(strategy, by_level=True) == (strategy, None)


def test_level_goes_on_without_its_learners(without_learning):
    strategy = strategy_of(LONG.strategy)
    kept, note = runnable(strategy, by_level=True)
    assert len(kept.members) == len(strategy.members) - 2
    assert not any(text.startswith("rl-") for text in kept.members)
    assert kept.slack == strategy.slack
    assert (note.code, note.severity) == ("MCM-L013", Severity.NOTE)
    assert "no_such_module and nor_this_one are missing" in note.message


def test_level_without_learners_stays_as_it_is(without_learning):
    strategy = strategy_of(DEFAULT.strategy)
    assert runnable(strategy, by_level=True) == (strategy, None)


@pytest.mark.parametrize(
    ("text", "by_level"),
    [("rl", True), ("rl-finetune", False), ("portfolio{members=\"dp;rl\"}", False),
     ("portfolio{members=\"rl\"}", True)],
)  # fmt: skip
def test_learner_that_is_needed_is_refused(without_learning, text, by_level):
    with pytest.raises(CompileError) as caught:
        runnable(strategy_of(text), by_level=by_level)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-L012"
    assert 'pip install "mcm-compiler[learn]"' in diagnostic.hint


def test_trained_policy_needs_nothing(without_learning):
    strategy = strategy_of("rl-zeroshot")
    assert runnable(strategy, by_level=False) == (strategy, None)
