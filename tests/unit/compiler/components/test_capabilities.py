"""What targets can and cannot do, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.cli.main import cli
from mcm_compiler.components.capabilities import (
    batch_evaluation_of,
    lowering_of,
    required_batch_evaluation_of,
    simulator_of,
    targets_with,
)
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.registry import TARGET_FAMILIES

MODEL = "zoo:plain-cnn"

RING = ("mcm4", "mcm16", "mcm36")


@dataclass(frozen=True)
class Numbers:
    """A target that tells its numbers and its costs, and no more."""

    whole: Any

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def summary(self) -> str:
        return self.whole.summary

    @property
    def limits(self) -> Any:
        return self.whole.limits

    @property
    def machine(self) -> Any:
        return self.whole.machine

    @property
    def source_text(self) -> str:
        return self.whole.source_text.replace('"ring"', '"test_numbers"')

    def details(self) -> Any:
        return self.whole.details()

    def cost_model(self) -> Any:
        return self.whole.cost_model()


class Lowering(Numbers):
    """One that lowers as well."""

    @property
    def source_text(self) -> str:
        return self.whole.source_text.replace('"ring"', '"test_lowering"')

    def lower(self, chips: Any, wires: Any) -> Any:
        return self.whole.lower(chips, wires)


@pytest.fixture(autouse=True)
def families():
    def family(kind: type[Numbers]) -> Any:
        def make(name: str, text: str) -> Numbers:
            found = text.replace('"test_numbers"', '"ring"').replace('"test_lowering"', '"ring"')
            return kind(TARGET_FAMILIES.get("ring")(name, found))

        return make

    TARGET_FAMILIES.add("test_numbers", family(Numbers), "a test")
    TARGET_FAMILIES.add("test_lowering", family(Lowering), "a test")
    yield
    TARGET_FAMILIES.remove("test_numbers")
    TARGET_FAMILIES.remove("test_lowering")


def ring(name: str) -> Any:
    return TARGET_FAMILIES.get("ring")(name, load_target("mcm4").source_text)


def numbers() -> Any:
    return Numbers(ring("numbers"))


def lowering() -> Any:
    return Lowering(ring("lowering"))


def test_a_ring_can_do_everything() -> None:
    target = load_target("mcm4")
    assert lowering_of(target) is target
    assert simulator_of(target) is not None
    assert batch_evaluation_of(target) is required_batch_evaluation_of(target) is target


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lowering_of, "MCM-T020"),
        (simulator_of, "MCM-T021"),
        (required_batch_evaluation_of, "MCM-T022"),
    ],
)
def test_what_a_target_cannot_do_names_those_that_can(ask: Any, code: str) -> None:
    with pytest.raises(CompileError) as caught:
        ask(numbers())
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert "'numbers'" in found.message
    assert found.hint is not None
    assert all(name in found.hint for name in RING)


def test_a_cluster_lowers_nothing() -> None:
    assert "config-a" not in targets_with("lowers")
    assert set(RING) <= set(targets_with("lowers"))


def test_a_pipeline_is_refused_before_anything_runs() -> None:
    ran: list[str] = []
    with pytest.raises(CompileError) as caught:
        compile_model(MODEL, numbers(), after_pass=lambda step, _: ran.append(step.name))
    assert not ran
    assert [d.code for d in caught.value.diagnostics] == ["MCM-T020", "MCM-T021"]
    lower, simulated = caught.value.diagnostics
    assert "pass 'lower' needs" in lower.message
    assert "pass 'simulate' needs" in simulated.message


def test_the_pipeline_of_the_hint_compiles_and_its_folder_holds(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_model(MODEL, numbers())
    hint = caught.value.diagnostics[0].hint or ""
    passes = hint.split("'")[1]
    assert passes == DEFAULT_PIPELINE.replace("lower,simulate,", "")
    folder = tmp_path / "out"
    options = CompileOptions(passes=passes, level=1)
    result = compile_model(MODEL, numbers(), options, output=folder)
    assert result.chips
    assert result.program is None
    assert check_folder(folder, seeds=range(1)).holds


def test_what_lowers_and_does_not_simulate_compiles_without_simulation(tmp_path: Path) -> None:
    options = CompileOptions(level=1)
    with pytest.raises(CompileError) as caught:
        compile_model(MODEL, lowering(), options)
    (found,) = caught.value.diagnostics
    passes = (found.hint or "").split("'")[1]
    folder = tmp_path / "out"
    options = CompileOptions(passes=passes, level=1)
    result = compile_model(MODEL, lowering(), options, output=folder)
    assert result.program is not None
    assert result.simulation is None
    assert check_folder(folder, seeds=range(1)).holds
    told = CliRunner().invoke(cli, ["simulate", str(folder)])
    assert told.exit_code == 1
    assert "error[MCM-T021]" in told.stderr


@pytest.mark.parametrize(
    ("strategy", "warned"),
    [
        ("local_search{simulated=true}", True),
        ("portfolio{members=dp;local_search{simulated=true}}", True),
        ("rl-zeroshot{reward=judge,samples=4}", True),
        ("rl-zeroshot{samples=4}", False),
        ("portfolio{members=dp;local_search}", False),
    ],
)
def test_a_strategy_that_asks_a_simulator_that_is_not_there_is_told(
    strategy: str, warned: bool
) -> None:
    passes = "simplify,fuse,annotate_cost,partition"
    text = strategy.replace("members=", 'members="').replace("}}", '}"}')
    text = text.replace("local_search}", 'local_search"}')
    options = CompileOptions(passes=passes, partitioner=text, samples=20)
    result = compile_model(MODEL, numbers(), options)
    found = [d for d in result.diagnostics if d.code == "MCM-T022"]
    assert len(found) == warned
    for one in found:
        assert one.severity is Severity.WARNING
        assert f"strategy '{strategy.partition('{')[0]}'" in one.message
    assert result.partition is not None
