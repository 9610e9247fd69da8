"""Facts fall with what they were derived from, and are made again where a later pass needs them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.graph.annotations import GRAPH, AnnotationKey, falling_with, known_keys
from mcm_compiler.graph.source import SOURCE, SourceModel
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.fact_ledger import snapshot
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import Pass, PassContext, parse_pipeline
from mcm_compiler.processes.staging import StagingFolder
from mcm_compiler.registry import PASSES
from tests.generators.example_result import ExampleTarget, example_model

COUNT: AnnotationKey[int] = AnnotationKey("falls_count")
"""Ops of the graph; derived from the graph by default."""

DOUBLE: AnnotationKey[list[int]] = AnnotationKey("falls_double", derived_from=(COUNT,))
RECORD: AnnotationKey[str] = AnnotationKey("falls_record", derived_from=())
AMENDED: AnnotationKey[int] = AnnotationKey("falls_amended")
OTHER: AnnotationKey[int] = AnnotationKey("falls_other")
TIMES = dict[str, int]()


def _ran(step: Pass) -> None:
    TIMES[step.name] = TIMES.get(step.name, 0) + 1


@dataclass(frozen=True)
class CountOps(Pass):
    name: ClassVar[str] = "falls_count_ops"
    summary: ClassVar[str] = "counts"
    provides: ClassVar[tuple[Any, ...]] = (COUNT,)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        _ran(self)
        COUNT.set(model, 1000 + len(list(model.graph)))
        return False


@dataclass(frozen=True)
class DoubleIt(Pass):
    name: ClassVar[str] = "falls_double_it"
    summary: ClassVar[str] = "derives a fact from a fact"
    requires: ClassVar[tuple[Any, ...]] = (COUNT,)
    provides: ClassVar[tuple[Any, ...]] = (DOUBLE, RECORD)

    def run(self, model: ir.Model, context: PassContext) -> None:
        _ran(self)
        DOUBLE.set(model, [2 * COUNT.get(model)])
        RECORD.set(model, "done")


@dataclass(frozen=True)
class Grow(Pass):
    """Adds an op; declares nothing at all."""

    name: ClassVar[str] = "falls_grow"
    summary: ClassVar[str] = "adds an op"

    def run(self, model: ir.Model, context: PassContext) -> None:
        last = list(model.graph)[-1]
        node = ir.Node("", "Neg", [last.outputs[0]], name=f"grown_{len(list(model.graph))}")
        node.outputs[0].name = f"{node.name}_out"
        model.graph.append(node)


@dataclass(frozen=True)
class GrowAndKeep(Grow):
    name: ClassVar[str] = "falls_grow_and_keep"
    preserves: ClassVar[tuple[Any, ...]] = (COUNT,)


@dataclass(frozen=True)
class Read(Pass):
    name: ClassVar[str] = "falls_read"
    summary: ClassVar[str] = "reads"
    requires: ClassVar[tuple[Any, ...]] = (DOUBLE,)

    def run(self, model: ir.Model, context: PassContext) -> None:
        context.report(Diagnostic("TEST-001", f"{DOUBLE.get(model)[0]}", severity=Severity.NOTE))


@dataclass(frozen=True)
class Use(Read):
    name: ClassVar[str] = "falls_use"
    requires: ClassVar[tuple[Any, ...]] = ()
    uses: ClassVar[tuple[Any, ...]] = (DOUBLE,)

    def run(self, model: ir.Model, context: PassContext) -> None:
        found = DOUBLE.find(model)
        context.report(Diagnostic("TEST-002", f"{found}", severity=Severity.NOTE))


@dataclass(frozen=True)
class SetSilently(Pass):
    name: ClassVar[str] = "falls_set_silently"
    summary: ClassVar[str] = "sets a fact without saying so"

    def run(self, model: ir.Model, context: PassContext) -> bool:
        COUNT.set(model, 5000)
        return False


@dataclass(frozen=True)
class First(Pass):
    name: ClassVar[str] = "falls_first"
    summary: ClassVar[str] = "a fact that another pass amends"
    provides: ClassVar[tuple[Any, ...]] = (AMENDED,)

    def run(self, model: ir.Model, context: PassContext) -> None:
        AMENDED.set(model, 10_000)


@dataclass(frozen=True)
class Amend(Pass):
    name: ClassVar[str] = "falls_amend"
    summary: ClassVar[str] = "amends it, and makes another"
    requires: ClassVar[tuple[Any, ...]] = (AMENDED,)
    provides: ClassVar[tuple[Any, ...]] = (AMENDED, OTHER)

    def run(self, model: ir.Model, context: PassContext) -> None:
        AMENDED.set(model, AMENDED.get(model) + 1)
        OTHER.set(model, 20_000 + len(list(model.graph)))


@dataclass(frozen=True)
class GrowKeepingAmended(Grow):
    name: ClassVar[str] = "falls_grow_keeping_amended"
    preserves: ClassVar[tuple[Any, ...]] = (AMENDED,)


@dataclass(frozen=True)
class NeedBoth(Pass):
    name: ClassVar[str] = "falls_need_both"
    summary: ClassVar[str] = "reads both"
    requires: ClassVar[tuple[Any, ...]] = (AMENDED, OTHER)

    def run(self, model: ir.Model, context: PassContext) -> None:
        context.report(
            Diagnostic(
                "TEST-003", f"{AMENDED.get(model)} {OTHER.get(model)}", severity=Severity.NOTE
            )
        )


_PASSES = (
    CountOps, DoubleIt, Grow, GrowAndKeep, Read, Use, SetSilently, First, Amend,
    GrowKeepingAmended, NeedBoth,
)  # fmt: skip


@pytest.fixture(autouse=True)
def registered() -> Generator[None]:
    TIMES.clear()
    for cls in _PASSES:
        PASSES.add(cls.name, cls, __file__)
    yield
    for cls in _PASSES:
        PASSES.remove(cls.name)


@pytest.fixture
def model() -> ir.Model:
    made = example_model()
    SOURCE.set(made, SourceModel("m", None, "0" * 64, made, {}))
    return made


def _run(model: ir.Model, text: str, wanted: tuple[Any, ...] = ()) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    context = PassContext(
        ExampleTarget(), CompileOptions(), StagingFolder(Path("unused"), None), found.append
    )
    PassManager(parse_pipeline(text)).run(model, context, wanted)
    return found


def test_a_fact_without_word_of_its_origin_is_derived_from_the_graph() -> None:
    assert COUNT.sources == (GRAPH.name,)
    assert RECORD.sources == ()
    assert GRAPH not in known_keys()


def test_facts_fall_transitively_but_for_those_that_are_kept() -> None:
    assert falling_with([COUNT.name]) == {DOUBLE.name: COUNT.name}
    fallen = falling_with([GRAPH.name])
    assert fallen[COUNT.name] == GRAPH.name
    assert fallen[DOUBLE.name] == COUNT.name
    assert RECORD.name not in fallen
    assert SOURCE.name not in fallen
    assert not {COUNT.name, DOUBLE.name} & set(falling_with([GRAPH.name], [COUNT.name]))


def test_a_pass_that_changes_the_graph_and_declares_nothing_takes_derived_facts(
    model: ir.Model,
) -> None:
    ops = len(list(model.graph))
    _run(model, "falls_count_ops,falls_double_it,falls_grow")
    assert not COUNT.present(model)
    assert not DOUBLE.present(model)
    assert RECORD.get(model) == "done"
    assert len(list(model.graph)) == ops + 1


def test_what_a_pass_preserves_stays(model: ir.Model) -> None:
    _run(model, "falls_count_ops,falls_double_it,falls_grow_and_keep")
    assert COUNT.present(model)
    assert DOUBLE.present(model)


def test_a_fallen_fact_is_made_again_with_a_note_that_names_who_changed_the_graph(
    model: ir.Model,
) -> None:
    ops = len(list(model.graph))
    found = _run(model, "falls_count_ops,falls_double_it,falls_grow,falls_read")
    note, read = found
    assert note.code == "MCM-X010"
    assert "'falls_count_ops' and 'falls_double_it' ran again before 'falls_read'" in note.message
    assert "pass 'falls_grow' changed the graph" in note.message
    assert read.message == str(2 * (1000 + ops + 1))
    assert TIMES == {"falls_count_ops": 2, "falls_double_it": 2}


def test_a_replaced_fact_invalidates_what_was_derived_from_it(model: ir.Model) -> None:
    found = _run(model, "falls_count_ops,falls_double_it,falls_set_silently,falls_read")
    assert "pass 'falls_set_silently' replaced 'falls_count'" in found[0].message
    assert found[1].message == "10000"
    assert TIMES == {"falls_count_ops": 1, "falls_double_it": 2}


def test_a_used_fact_is_made_again_only_where_the_pipeline_made_it(model: ir.Model) -> None:
    assert [d.message for d in _run(model, "falls_grow,falls_use")] == ["None"]
    ops = len(list(model.graph))
    found = _run(model, "falls_count_ops,falls_double_it,falls_grow,falls_use")
    assert found[-1].message == f"[{2 * (1000 + ops + 1)}]"


def test_what_is_wanted_holds_at_the_end(model: ir.Model) -> None:
    ops = len(list(model.graph))
    found = _run(model, "falls_count_ops,falls_double_it,falls_grow", (DOUBLE,))
    assert [d.code for d in found] == ["MCM-X010"]
    assert DOUBLE.get(model) == [2 * (1000 + ops + 1)]


def test_a_pass_that_runs_again_does_not_amend_its_own_result(model: ir.Model) -> None:
    ops = len(list(model.graph))
    found = _run(model, "falls_first,falls_amend,falls_grow_keeping_amended,falls_need_both")
    assert found[-1].message == f"10001 {20_000 + ops + 1}"


def test_a_fact_that_nothing_makes_again_is_named_with_the_pass_that_took_it(
    model: ir.Model,
) -> None:
    DOUBLE.set(model, [7])
    with pytest.raises(CompileError) as caught:
        _run(model, "falls_grow,falls_read")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-X011"
    assert "pass 'falls_grow' changed the graph" in fault.message
    assert fault.hint == "put falls_double_it between them"


def test_a_fact_that_falls_for_certain_is_missing_before_anything_runs(model: ir.Model) -> None:
    DOUBLE.set(model, [7])
    with pytest.raises(CompileError) as caught:
        _run(model, "falls_grow,falls_count_ops,falls_read")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-X002"
    assert "becomes invalid where pass 'falls_count_ops' replaces its source" in fault.message
    assert TIMES == {}


def _rename(model: ir.Model) -> None:
    next(iter(model.graph)).outputs[0].name = "another"


def _reshape(model: ir.Model) -> None:
    next(iter(model.graph)).outputs[0].shape = ir.Shape([1, 2, 3])


def _other_attribute(model: ir.Model) -> None:
    next(iter(model.graph)).attributes["alpha"] = ir.Attr("alpha", ir.AttributeType.INT, 3)


def _other_operand(model: ir.Model) -> None:
    *_, last = model.graph
    last.replace_input_with(0, model.graph.inputs[0])


def _other_weight(model: ir.Model) -> None:
    weight = next(iter(model.graph.initializers.values()))
    assert weight.const_value is not None
    weight.const_value = ir.tensor(weight.const_value.numpy() * 2, name=weight.name)


def _same_node_again(model: ir.Model) -> None:
    """Facts of the old op are not on the new one."""
    node = list(model.graph)[-1]
    copy = ir.Node(node.domain, node.op_type, node.inputs, node.attributes.values(), name=node.name)
    old = node.outputs[0]
    copy.outputs[0].type, copy.outputs[0].shape = old.type, old.shape
    name = old.name
    old.replace_all_uses_with(copy.outputs[0], replace_graph_outputs=True)
    old.name = None
    model.graph.remove(node, safe=False)
    copy.outputs[0].name = name
    model.graph.append(copy)


@pytest.mark.parametrize(
    "change", [_rename, _reshape, _other_attribute, _other_operand, _other_weight, _same_node_again]
)
def test_snapshots_tell_what_changed(model: ir.Model, change: Any) -> None:
    before = snapshot(model)
    assert snapshot(model) == before
    change(model)
    assert snapshot(model) != before


def test_snapshots_see_into_bodies() -> None:
    def body(factor: float) -> ir.Model:
        inner = ir.Node("", "Relu", [], name="inner", attributes=[ir.AttrFloat32("a", factor)])
        graph = ir.Graph([], inner.outputs, nodes=[inner], name="then")
        node = ir.Node("", "If", [], name="if", attributes=[ir.AttrGraph("then_branch", graph)])
        main = ir.Graph([], [], nodes=[node], opset_imports={"": 17})
        return ir.Model(main, ir_version=8)

    model = body(1.0)
    before = snapshot(model)
    graph = next(iter(model.graph)).attributes["then_branch"].as_graph()
    next(iter(graph)).op_type = "Abs"
    assert snapshot(model) != before


def test_metadata_and_facts_are_no_part_of_the_graph(model: ir.Model) -> None:
    before = snapshot(model)
    COUNT.set(model, 3)
    next(iter(model.graph)).metadata_props["note"] = "x"
    assert snapshot(model) == before
