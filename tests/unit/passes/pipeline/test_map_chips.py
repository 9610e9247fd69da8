from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from mcm_compiler.components.capabilities import lowered
from mcm_compiler.contracts.chips import CHIP_MODELS, MAPPED_CHIPS, WIRES
from mcm_compiler.contracts.fabrics.mappers import MapperAnswer
from mcm_compiler.contracts.fabrics.target import MappedChip, MapsChips
from mcm_compiler.contracts.target import HOST, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import PassContext
from mcm_compiler.processes import side_by_side
from mcm_compiler.registry import MAPPERS, MAPPING_MODELS
from mcm_hardware.families.fabric.measuring.player import FlitJudge
from mcm_hardware.families.ring.ring_target import mcm4
from mcm_passes.pipeline.lowering import MapChips
from tests.generators.fabric_targets import FakeFabrics, cycles, product_chip
from tests.generators.small_fabric import legal_mappings


@dataclass(frozen=True)
class Drawn:
    """A mapper that measures what it draws; `wrong` breaks its answer."""

    name: ClassVar[str] = "drawn"
    summary: ClassVar[str] = ""
    wrong: str = ""

    def map(self, request):
        problem, fabric, judge = request.problem, request.fabric, request.judge
        rng = np.random.default_rng(request.seed)
        drawn = legal_mappings(problem, fabric, request.measurements, rng)
        periods = judge.measure(problem, fabric, drawn).period_cycles
        best = drawn[int(np.argmin(periods))]
        if self.wrong == "site":
            best = replace(best, site=np.zeros_like(best.site))
        if self.wrong == "count":
            best = drawn
        if self.wrong == "rank":
            best = replace(best, site=best.site[0], turn=best.turn[0])
        if self.wrong == "number":
            best = replace(best, turn=best.turn[0, 0])
        if self.wrong == "whole":
            best = replace(best, site=best.site.astype(float))
        if self.wrong == "turn":
            best = replace(best, turn=best.turn.astype(bool))
        if self.wrong == "lists":
            best = replace(best, site=best.site.tolist())
        if self.wrong == "none":
            best = None
        if self.wrong == "nothing":
            return None
        return MapperAnswer(best, "drawn", 0, measurements=len(drawn), period_cycles=1.0)


@dataclass(frozen=True)
class SilentModel:
    name: ClassVar[str] = "silent"
    summary: ClassVar[str] = ""

    def prepared(self, problem, fabric):
        return None


@pytest.fixture(autouse=True)
def _components():
    MAPPERS.add("drawn", Drawn, "test")
    MAPPING_MODELS.add("silent", SilentModel, "test")
    yield
    MAPPERS.remove("drawn")
    MAPPING_MODELS.remove("silent")


NAMES = ("one", "two", "one", "three")
CHIPS = tuple(product_chip(chip, name) for chip, name in enumerate(NAMES))
TENSORS = [f"t{i}" for i in range(5)]
WIRES_OF = tuple(
    Wire(tensor, source, (target,))
    for tensor, source, target in zip(TENSORS, [HOST, 0, 1, 2, 3], [0, 1, 2, 3, HOST], strict=True)
)
ASKED = CompileOptions(mapper="drawn", mapping_model="silent")


def run(target: Any, options: CompileOptions = ASKED) -> tuple[MappedChip, ...]:
    model = CHIPS[0].model.clone()
    CHIP_MODELS.set(model, CHIPS)
    WIRES.set(model, WIRES_OF)
    reported: list[Diagnostic] = []
    assert MapChips().run(model, PassContext(target, options, None, reported.append)) is False
    assert not reported
    return MAPPED_CHIPS.get(model)


def codes(target: Any, options: CompileOptions = ASKED) -> list[str]:
    with pytest.raises(CompileError) as caught:
        run(target, options)
    return [found.code for found in caught.value.diagnostics]


def test_equal_chips_are_mapped_once_whatever_their_names_are():
    target = FakeFabrics(changes={"three": cycles(9)})
    assert isinstance(target, MapsChips)
    mapped = run(target)
    assert [one.like for one in mapped] == [-1, 0, 0, -1]
    assert mapped[1].mapping is mapped[0].mapping
    assert mapped[1].problem.stages == ("two in", "two product")
    assert mapped[3].period_cycles > mapped[0].period_cycles >= mapped[0].bound_cycles
    assert {one.method for one in mapped} == {"drawn by silent"}


def test_mappings_do_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch):
    target = FakeFabrics(changes={"two": cycles(7), "three": cycles(9)})
    options = CompileOptions(mapper="annealing", mapping_model="round-trips", samples=300)
    found: list[list[tuple[bytes, bytes, float]]] = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(side_by_side, "usable_cores", lambda cores=cores: cores)
        found.append(
            [
                (one.mapping.site.tobytes(), one.mapping.turn.tobytes(), one.period_cycles)
                for one in run(target, options)
            ]
        )
    assert found[0] == found[1] == found[2]


def test_figures_are_the_judges_and_seeds_repeat():
    first, again, other = (run(FakeFabrics(), replace(ASKED, seed=s)) for s in (1, 1, 2))
    problem, fabric = first[0].problem, FakeFabrics().fabric
    measured = FlitJudge().measure(problem, fabric, first[0].mapping)
    assert first[0].period_cycles == measured.period_cycles[0]
    assert first[0].latency_cycles == measured.latency_cycles[0]
    assert np.array_equal(first[0].mapping.site, again[0].mapping.site)
    assert not np.array_equal(first[0].mapping.site, other[0].mapping.site)


@pytest.fixture
def counts(monkeypatch):
    """How many mappings the judge is asked about, call by call."""
    counts: list[int] = []
    measure = FlitJudge.measure

    def counted(self, problem, fabric, mappings):
        counts.append(len(mappings))
        return measure(self, problem, fabric, mappings)

    monkeypatch.setattr(FlitJudge, "measure", counted)
    return counts


def test_levels_say_how_many_mappings_are_measured(counts):
    for level in (0, 1, 3):
        run(FakeFabrics(), replace(ASKED, level=level))
    # One play for each mapping that the mapper asked about, and none for the one that it took.
    assert counts == [1, 3, 64]


def test_of_large_chips_fewer_mappings_are_measured_but_always_one(counts, tmp_path):
    fabric = FakeFabrics().fabric
    problem = run(FakeFabrics())[0].problem
    ends = problem.leaf_ptr.tolist()
    taken = sum(int(problem.flits[e]) * (ends[e + 1] - ends[e]) for e in range(len(ends) - 1))
    hops = 100 * taken * ((fabric.rows + fabric.cols) / 3 + 1)
    counts.clear()
    for affordable, at_least in ((0.1, 1), (2.5, 2), (6.5, 6), (60, 6)):
        level = tmp_path / f"{affordable}.toml"
        level.write_text(f"strategy = 'dp'\nmeasured_hops = {int(affordable * hops)}\n")
        run(FakeFabrics(), replace(ASKED, level=str(level)))
        assert counts.pop() == at_least
        assert not counts


def test_targets_without_fabrics_are_left_alone_unless_a_mapper_is_asked_for():
    assert run(mcm4(), CompileOptions()) == ()
    for options in (CompileOptions(mapper="drawn"), CompileOptions(mapping_model="silent"), ASKED):
        assert codes(mcm4(), options) == ["MCM-M020"]


def test_all_chips_that_do_not_fit_are_told():
    class Tight(FakeFabrics):
        def mapping_problem(self, model, choice):
            if model.graph.name == "two":
                raise CompileError(Diagnostic("MCM-M001", "too many", at="here"))
            if model.graph.name == "three":
                raise CompileError(Diagnostic("MCM-M002", "too large"))
            return super().mapping_problem(model, choice)

    with pytest.raises(CompileError) as caught:
        run(Tight())
    assert [(d.code, d.at) for d in caught.value.diagnostics] == [
        ("MCM-M001", "chip 1: here"),
        ("MCM-M002", "chip 3"),
    ]


@dataclass(frozen=True)
class IdleFabrics(FakeFabrics):
    """Of models of some names nothing can be laid out."""

    idle: tuple[str, ...] = ()

    def mapping_problem(self, model, choice):
        if model.graph.name in self.idle and model.graph[0].name.startswith("relu"):
            raise CompileError(Diagnostic("MCM-M004", "nothing of it depends on its inputs"))
        return super().mapping_problem(model, choice)


def test_chips_with_nothing_to_do_are_laid_out_beside_others():
    mapped = run(IdleFabrics(idle=("one",)))
    assert [one.chip for one in mapped] == [0, 1, 2, 3]
    assert mapped[0].problem.name == "one"
    assert codes(IdleFabrics(idle=("one", "two", "three"))) == ["MCM-M004"] * 4


def test_a_lowering_that_could_stand_still_is_refused():
    leaf = np.array([1, 2, 3, 2, 3, 3, 5, 6], np.int32)
    assert codes(FakeFabrics(changes={"three": {"leaf": leaf}})) == ["MCM-M023"]


@pytest.mark.parametrize(
    "wrong", ["site", "count", "rank", "number", "whole", "turn", "lists", "none", "nothing"]
)
def test_a_mapper_that_breaks_its_contract_is_named(wrong):
    options = replace(ASKED, mapper=f"drawn{{wrong={wrong}}}")
    assert codes(FakeFabrics(), options) == ["MCM-M022"]


@dataclass(frozen=True)
class Faulty:
    """A mapping model that fails where it is told to, or answers what are no periods."""

    name: ClassVar[str] = "faulty"
    summary: ClassVar[str] = ""
    at: str = "cost"

    def __post_init__(self):
        self._fail("made")

    def chosen_for(self, fabric, lowering, physics):
        self._fail("chosen")
        return self

    def prepared(self, problem, fabric):
        self._fail("prepared")
        return self

    def search_cost(self, mappings):
        self._fail("cost")
        return np.full(len(mappings), np.nan)

    def period_cycles(self, mappings):
        return np.ones(len(mappings))

    def _fail(self, at):
        if at == self.at:
            raise RuntimeError("lost")


@dataclass(frozen=True)
class Failing:
    """A mapper that leaves."""

    name: ClassVar[str] = "failing"
    summary: ClassVar[str] = ""

    def map(self, request):
        raise SystemExit(0)


@pytest.fixture
def faulty():
    MAPPERS.add("failing", Failing, "failing.py")
    MAPPING_MODELS.add("faulty", Faulty, "faulty.py")
    yield
    MAPPERS.remove("failing")
    MAPPING_MODELS.remove("faulty")


@pytest.mark.parametrize("at", ["made", "chosen", "prepared", "cost"])
def test_a_mapping_model_that_fails_is_named(faulty, at):
    options = CompileOptions(mapper="annealing", mapping_model=f"faulty{{at={at}}}")
    with pytest.raises(CompileError) as caught:
        run(FakeFabrics(), options)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "faulty.py")
    assert found.message == "mapping model 'faulty' failed: RuntimeError: lost"


def test_a_mapping_model_without_periods_is_told_with_where_it_comes_from(faulty):
    options = CompileOptions(mapper="annealing", mapping_model="faulty{at=never}")
    with pytest.raises(CompileError) as caught:
        run(FakeFabrics(), options)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-M041", "mapping model 'faulty' of faulty.py")


def test_a_mapper_that_fails_is_named(faulty):
    with pytest.raises(CompileError) as caught:
        run(FakeFabrics(), CompileOptions(mapper="failing", mapping_model="faulty"))
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "failing.py")
    assert found.message == "mapper 'failing' failed: SystemExit: 0"


def test_a_chip_that_no_inference_leaves_while_flits_are_played_is_told():
    class Slow(FakeFabrics):
        def mapping_judge(self, most_hops=None):
            return FlitJudge(most_hops=5)

    with pytest.raises(CompileError) as caught:
        run(Slow())
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-M029", "chip 0")
    assert "'one in', has 32 flits" in found.message


def test_unknown_names_are_told():
    assert codes(FakeFabrics(), replace(ASKED, mapper="drown")) == ["MCM-U003"]
    assert codes(FakeFabrics(), replace(ASKED, mapping_model="silence")) == ["MCM-U003"]


@pytest.mark.parametrize("option", ["mapper", "mapping_model"])
def test_an_empty_name_is_no_choice_of_the_level(option: str):
    assert codes(FakeFabrics(), replace(ASKED, **{option: ""})) == ["MCM-U001"]


def test_chips_that_are_not_mapped_are_not_lowered():
    mapped = run(FakeFabrics())
    assert len(lowered(FakeFabrics(), CHIPS, WIRES_OF, mapped).chips) == 4
    for some in (None, (), mapped[:-1]):
        with pytest.raises(CompileError, match="MCM-M021"):
            lowered(FakeFabrics(), CHIPS, WIRES_OF, some)


def test_a_learned_model_is_asked_whether_it_has_learned_of_the_target():
    asked: list[tuple[str, str, str]] = []

    @dataclass(frozen=True)
    class Learned(SilentModel):
        name: ClassVar[str] = "learned"

        def check_learned_of(self, fabric, lowering, physics):
            asked.append((fabric.name, lowering, physics))
            if lowering != "fake":
                raise CompileError(Diagnostic("MCM-M053", "it has learned of another lowering"))

    MAPPING_MODELS.add("learned", Learned, "test")
    try:
        options = replace(ASKED, mapping_model="learned")
        run(FakeFabrics(), options)
        assert asked == [("small", "fake", FlitJudge().physics)]
        assert codes(FakeFabrics(lowering_hash="new"), options) == ["MCM-M053"]
    finally:
        MAPPING_MODELS.remove("learned")


def test_a_model_that_stands_for_another_is_replaced_by_it():
    asked: list[tuple[str, str, str]] = []

    @dataclass(frozen=True)
    class Chooses(SilentModel):
        name: ClassVar[str] = "chooses"

        def chosen_for(self, fabric, lowering, physics):
            asked.append((fabric.name, lowering, physics))
            return SilentModel()

    MAPPING_MODELS.add("chooses", Chooses, "test")
    try:
        mapped = run(FakeFabrics(), replace(ASKED, mapping_model="chooses"))
    finally:
        MAPPING_MODELS.remove("chooses")
    assert asked == [("small", "fake", FlitJudge().physics)]
    assert {one.method for one in mapped} == {"drawn by silent"}
