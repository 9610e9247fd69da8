"""The contract of passes, and the manager of a pipeline."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.graph.annotations import AnnotationKey
from mcm_compiler.graph.source import SOURCE, SourceModel
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import COLLECT_AFTER, PassManager
from mcm_compiler.pipeline.passes import Pass, PassContext, parse_pipeline, print_pipeline
from mcm_compiler.processes.interruption import EndingError
from mcm_compiler.processes.staging import StagingFolder
from mcm_compiler.registry import PASSES
from tests.generators.example_result import ExampleTarget, example_model

FACT: AnnotationKey[int] = AnnotationKey("test_fact")
NODE_FACT: AnnotationKey[int] = AnnotationKey("test_node_fact", on="node")


@dataclass(frozen=True)
class Give(Pass):
    name: ClassVar[str] = "test_give"
    summary: ClassVar[str] = "provides the facts"
    provides: ClassVar[tuple[Any, ...]] = (FACT, NODE_FACT)
    value: int = 1

    def run(self, model: ir.Model, context: PassContext) -> None:
        FACT.set(model, self.value)
        for node in model.graph:
            NODE_FACT.set(node, self.value)


@dataclass(frozen=True)
class Need(Pass):
    name: ClassVar[str] = "test_need"
    summary: ClassVar[str] = "requires the facts"
    requires: ClassVar[tuple[Any, ...]] = (FACT, NODE_FACT)

    def run(self, model: ir.Model, context: PassContext) -> None:
        context.report(Diagnostic("TEST-001", f"fact {FACT.get(model)}", severity=Severity.NOTE))


@dataclass(frozen=True)
class Forget(Pass):
    name: ClassVar[str] = "test_forget"
    summary: ClassVar[str] = "invalidates the facts"
    invalidates: ClassVar[tuple[Any, ...]] = (FACT, NODE_FACT)

    def run(self, model: ir.Model, context: PassContext) -> None:
        pass


@dataclass(frozen=True)
class Break(Pass):
    name: ClassVar[str] = "test_break"
    summary: ClassVar[str] = "breaks an invariant, or raises"
    how: str = "name"
    says: bool | None = None

    def run(self, model: ir.Model, context: PassContext) -> bool | None:
        nodes = list(model.graph)
        if self.how == "name":
            nodes[0].name = nodes[1].name
        elif self.how == "order":
            model.graph.remove(nodes[0])
            model.graph.append(nodes[0])
        elif self.how == "value":
            nodes[0].outputs[0].name = nodes[1].outputs[0].name
        elif self.how == "unnamed":
            nodes[0].name = None
        else:
            raise RuntimeError(self.how)
        return self.says


@dataclass(frozen=True)
class Liar(Pass):
    name: ClassVar[str] = "test_liar"
    summary: ClassVar[str] = "does not provide what it declares"
    provides: ClassVar[tuple[Any, ...]] = (FACT,)

    def run(self, model: ir.Model, context: PassContext) -> None:
        pass


@pytest.fixture(autouse=True)
def registered() -> Generator[None]:
    passes = (Give, Need, Forget, Break, Liar)
    for cls in passes:
        PASSES.add(cls.name, cls, __file__)
    yield
    for cls in passes:
        PASSES.remove(cls.name)


@pytest.fixture
def model() -> ir.Model:
    made = example_model()
    SOURCE.set(made, SourceModel("m", None, "0" * 64, made, {}))
    return made


def _context(found: list[Diagnostic], lines: list[str] | None = None, seed: int = 0) -> PassContext:
    show = lines.append if lines is not None else lambda _line: None
    stage = StagingFolder(Path("unused"), None)
    return PassContext(ExampleTarget(), CompileOptions(seed=seed), stage, found.append, show)


def _codes(caught: pytest.ExceptionInfo[CompileError]) -> list[str]:
    return [d.code for d in caught.value.diagnostics]


def test_pipelines_print_and_parse() -> None:
    text = "test_give{value=5},test_need,test_break{how=order}"
    passes = parse_pipeline(text)
    assert passes == (Give(5), Need(), Break("order"))
    assert print_pipeline(passes) == text


def test_passes_run_in_order_with_progress_timings_and_a_hook(model: ir.Model) -> None:
    found: list[Diagnostic] = []
    lines: list[str] = []
    after: list[tuple[str, int | None]] = []
    manager = PassManager(
        parse_pipeline("test_give{value=2},test_need"),
        lambda step, m: after.append((str(step), FACT.find(m))),
    )
    manager.run(model, _context(found, lines))
    assert [d.message for d in found] == ["fact 2"]
    assert lines == ["test_give", "test_need"]
    assert after == [("test_give{value=2}", 2), ("test_need", 2)]
    assert [name for name, _ in manager.timings] == ["test_give", "test_need"]
    assert all(seconds >= 0 for _, seconds in manager.timings)


def test_missing_facts_are_found_before_anything_runs(model: ir.Model) -> None:
    with pytest.raises(CompileError) as caught:
        PassManager(parse_pipeline("test_break{how=raise},test_need")).run(model, _context([]))
    assert _codes(caught) == ["MCM-X002", "MCM-X002"]
    assert all(d.hint and "test_give" in d.hint for d in caught.value.diagnostics)


def test_an_invalidated_fact_is_missing_and_dropped(model: ir.Model) -> None:
    with pytest.raises(CompileError) as caught:
        PassManager(parse_pipeline("test_give,test_forget,test_need")).check()
    assert _codes(caught) == ["MCM-X002", "MCM-X002"]
    PassManager(parse_pipeline("test_give,test_forget")).run(model, _context([]))
    assert not FACT.present(model)
    assert not NODE_FACT.present(model)


def test_facts_that_the_model_has_already_count(model: ir.Model) -> None:
    PassManager((Give(3),)).run(model, _context([]))
    found: list[Diagnostic] = []
    PassManager((Need(),)).run(model, _context(found))
    assert [d.message for d in found] == ["fact 3"]


@pytest.mark.parametrize(
    ("how", "part"),
    [
        ("name", "two nodes are named 'relu'"),
        ("order", "reads 'h' before it is produced"),
        ("value", "two values are named 'y'"),
        ("unnamed", "a node of type 'MatMul' has no name"),
    ],
)
@pytest.mark.parametrize("says", [None, False], ids=["silent", "says that it changed nothing"])
def test_a_pass_that_breaks_an_invariant_is_named(
    model: ir.Model, how: str, part: str, says: bool | None
) -> None:
    with pytest.raises(CompileError) as caught:
        PassManager((Break(how, says),)).run(model, _context([]))
    assert set(_codes(caught)) == {"MCM-X005"}
    assert "pass 'test_break'" in str(caught.value)
    assert part in str(caught.value)


def test_a_pass_that_does_not_provide_what_it_declares_is_named(model: ir.Model) -> None:
    with pytest.raises(CompileError) as caught:
        PassManager((Liar(),)).run(model, _context([]))
    assert _codes(caught) == ["MCM-X005"]
    assert "pass 'test_liar'" in str(caught.value)


def test_a_pass_that_raises_is_named(model: ir.Model) -> None:
    with pytest.raises(CompileError) as caught:
        PassManager((Break("boom"),)).run(model, _context([]))
    assert _codes(caught) == ["MCM-X006"]
    assert "RuntimeError: boom" in str(caught.value)


@dataclass(frozen=True)
class Leave(Pass):
    name: ClassVar[str] = "test_leave"
    summary: ClassVar[str] = "ends the program"

    def run(self, model: ir.Model, context: PassContext) -> None:
        sys.exit(0)


@dataclass(frozen=True)
class Miss(Pass):
    name: ClassVar[str] = "test_miss"
    summary: ClassVar[str] = "looks for a file that is not there"

    def run(self, model: ir.Model, context: PassContext) -> None:
        Path("no such policy").read_bytes()


@dataclass(frozen=True)
class Talk(Pass):
    name: ClassVar[str] = "test_talk"
    summary: ClassVar[str] = "reports a text"

    def run(self, model: ir.Model, context: PassContext) -> None:
        context.report("hello")  # pyright: ignore[reportArgumentType]


class Own(BaseException):
    """What is no Exception."""


class Speechless(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("nothing to say")


@dataclass(frozen=True)
class Throw(Pass):
    name: ClassVar[str] = "test_throw"
    summary: ClassVar[str] = "raises what it is told to"
    error: BaseException = field(default_factory=RuntimeError)

    def run(self, model: ir.Model, context: PassContext) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Leave(), "SystemExit: 0"),
        (Miss(), "FileNotFoundError: "),
        (Talk(), "it reports a str, not a Diagnostic"),
        (Throw(Own("mine")), "Own: mine"),
        (Throw(GeneratorExit()), "failed: GeneratorExit"),
        (Throw(Speechless()), "Speechless, whose text raises ValueError"),
        (Throw(IsADirectoryError(errno.EISDIR, "a folder", "x")), "a folder: 'x'"),
        (Throw(ConnectionRefusedError(errno.ECONNREFUSED, "refused")), "refused"),
        (Throw(OSError("asleep")), "OSError: asleep"),
    ],
    ids=lambda value: value.name if isinstance(value, Pass) else "",
)
def test_a_pass_that_leaves_lacks_a_file_or_reports_no_diagnostic_is_named(
    model: ir.Model, step: Pass, reason: str
) -> None:
    with pytest.raises(CompileError) as caught:
        PassManager((step,)).run(model, _context([]))
    assert _codes(caught) == ["MCM-X006"]
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), SystemExit(143), EndingError("gone"), OSError(errno.ENOSPC, "full")],
    ids=lambda error: type(error).__name__,
)
def test_what_ends_the_command_and_full_disks_pass(model: ir.Model, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        PassManager((Throw(error),)).run(model, _context([]))
    assert caught.value is error


@dataclass(frozen=True)
class Do(Pass):
    name: ClassVar[str] = "test_do"
    summary: ClassVar[str] = "does what it is told to"
    what: Callable[[ir.Model, PassContext], object] = lambda _model, _context: None

    def run(self, model: ir.Model, context: PassContext) -> None:
        self.what(model, context)


def test_an_error_that_is_reported_ends_the_compile(model: ir.Model) -> None:
    error = Diagnostic("MY-001", "no")
    with pytest.raises(CompileError) as caught:
        PassManager((Do(lambda _, context: context.report(error)),)).run(model, _context([]))
    assert caught.value.diagnostics == (error,)


@pytest.mark.parametrize(
    "fields", [("MY-001", 5), (None, "x"), ("MY-001", "x", 5), ("MY-001", "x", None, None, "note")]
)
def test_a_diagnostic_that_no_report_could_hold_is_the_passes_fault(
    model: ir.Model, fields: tuple[Any, ...]
) -> None:
    with pytest.raises(CompileError) as caught:
        PassManager((Do(lambda _, c: c.report(Diagnostic(*fields))),)).run(model, _context([]))
    assert _codes(caught) == ["MCM-X006"]
    assert "of a diagnostic is" in str(caught.value)


def _named(model: ir.Model, name: Any) -> None:
    next(iter(model.graph)).name = name


def _value_named(model: ir.Model, name: Any) -> None:
    next(iter(model.graph)).outputs[0].name = name


def _noted(model: ir.Model, name: Any) -> None:
    next(iter(model.graph)).metadata_props["mine"] = name


@pytest.mark.parametrize("name", [5, "half of a \udcff"], ids=["number", "half"])
@pytest.mark.parametrize("change", [_named, _value_named, _noted])
def test_what_no_file_could_hold_is_told_of_the_pass(
    model: ir.Model, change: Callable[[ir.Model, Any], None], name: Any
) -> None:
    with pytest.raises(CompileError) as caught:
        PassManager((Do(lambda m, _: change(m, name)),)).run(model, _context([]))
    assert set(_codes(caught)) == {"MCM-X005"}
    assert "pass 'test_do' broke an invariant" in str(caught.value)


@pytest.mark.parametrize("left", ["manifest.json", "folder", "link"])
def test_what_an_output_folder_cannot_hold_is_told_of_the_pass(
    model: ir.Model, tmp_path: Path, left: str
) -> None:
    def leave(_: ir.Model, context: PassContext) -> None:
        path = context.staging.path / left
        if left == "folder":
            path.mkdir()
        elif left == "link":
            path.symlink_to(tmp_path)
        else:
            path.write_text("{}")

    (tmp_path / "staged").mkdir()
    context = replace(_context([]), staging=StagingFolder(tmp_path / "staged", None))
    with pytest.raises(CompileError) as caught:
        PassManager((Do(leave),)).run(model, context)
    assert _codes(caught) == ["MCM-X005"]
    assert left in str(caught.value)


class Silent(ExampleTarget):
    """A target that tells nothing of its cost."""

    def cost_model(self) -> Any:
        raise RuntimeError("no costs today")


@dataclass(frozen=True)
class AskTarget(Pass):
    name: ClassVar[str] = "test_ask"
    summary: ClassVar[str] = "asks the target"

    def run(self, model: ir.Model, context: PassContext) -> None:
        context.target.cost_model()


def test_a_target_that_fails_is_told_with_the_pass_that_asked_it(model: ir.Model) -> None:
    context = replace(_context([]), target=Silent())
    PASSES.add("test_ask", AskTarget, "ask.py")
    try:
        with pytest.raises(CompileError) as caught:
            PassManager((AskTarget(),)).run(model, context)
    finally:
        PASSES.remove("test_ask")
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X006", "pass 'test_ask' of ask.py")
    assert found.hint is not None
    assert f"or of target '{Silent().name}' of this process" in found.hint


@pytest.mark.parametrize(
    "said",
    [
        {"requires": ("fact",)},
        {"requires": None},
        {"provides": [FACT]},
        {"needs_target": "lowers"},
        {"needs_target": ("flies",)},
    ],
    ids=str,
)
def test_what_a_pass_cannot_mean_is_told_before_anything_runs(said: dict[str, Any]) -> None:
    PASSES.add("test_do", dataclass(frozen=True)(type("Said", (Do,), said)), "said.py")
    try:
        with pytest.raises(CompileError) as caught:
            parse_pipeline("test_do")
    finally:
        PASSES.remove("test_do")
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X006", "pass 'test_do' of said.py")
    assert f"{next(iter(said))} is " in found.message


class NoPass:
    """Registered, but not even a dataclass."""


@dataclass(frozen=True)
class Unrelated:
    """A dataclass, but no pass."""


@dataclass(frozen=True)
class Unfinished(Pass):
    """A pass that does nothing: `run` is missing."""

    name: ClassVar[str] = "test_malformed"
    summary: ClassVar[str] = "cannot be built"


@pytest.mark.parametrize("cls", [NoPass, Unrelated, Unfinished])
def test_a_class_that_is_no_pass_is_named(cls: type[Any]) -> None:
    PASSES.add("test_malformed", cls, __file__)
    try:
        with pytest.raises(CompileError) as caught:
            parse_pipeline("test_malformed")
        assert _codes(caught) == ["MCM-X006"]
        assert "test_malformed" in str(caught.value)
        # Neither does it get into the way when passes that provide a fact are looked up.
        with pytest.raises(CompileError) as caught:
            PassManager((Need(),)).check()
        assert _codes(caught) == ["MCM-X002", "MCM-X002"]
    finally:
        PASSES.remove("test_malformed")


def test_the_check_tells_which_facts_are_there_at_the_end() -> None:
    assert FACT.name in PassManager((Give(),)).check()
    assert FACT.name not in PassManager((Give(), Forget())).check()


def test_a_graph_without_nodes_lacks_no_fact_about_nodes() -> None:
    empty = ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 17}), ir_version=8)
    assert NODE_FACT.present(empty)
    assert not FACT.present(empty)


def test_random_streams_depend_on_seed_and_purpose_alone() -> None:
    def draw(seed: int, purpose: str) -> list[int]:
        return _context([], seed=seed).rng(purpose).integers(0, 2**60, 4).tolist()

    assert draw(1, "a") == draw(1, "a")
    assert draw(1, "a") != draw(1, "b")
    assert draw(1, "a") != draw(2, "a")
    assert isinstance(_context([]).rng("a"), np.random.Generator)


def test_the_imported_graph_is_kept_from_the_collector_while_passes_run(model: ir.Model) -> None:
    seen: list[int] = []
    manager = PassManager([Give()], after=lambda _step, _model: seen.append(gc.get_freeze_count()))
    manager.run(model, _context([]))
    assert seen[0] > 0
    assert gc.get_freeze_count() == 0
    with pytest.raises(CompileError):
        PassManager([Break("raise")]).run(model, _context([]))
    assert gc.get_freeze_count() == 0


def test_what_others_keep_from_the_collector_stays_so(model: ir.Model) -> None:
    gc.freeze()
    try:
        PassManager([Give()]).run(model, _context([]))
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_young_objects_are_looked_at_less_often_while_passes_run(model: ir.Model) -> None:
    before, seen = gc.get_threshold(), list[tuple[int, ...]]()
    manager = PassManager([Give()], after=lambda _step, _model: seen.append(gc.get_threshold()))
    manager.run(model, _context([]))
    assert seen == [(COLLECT_AFTER, *before[1:])]
    assert gc.get_threshold() == before
    with pytest.raises(CompileError):
        PassManager([Break("raise")]).run(model, _context([]))
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_by_its_threshold_stays_off(model: ir.Model) -> None:
    before, seen = gc.get_threshold(), list[tuple[int, ...]]()
    gc.set_threshold(0)
    try:
        PassManager([Give()], after=lambda _step, _model: seen.append(gc.get_threshold())).run(
            model, _context([])
        )
        assert [found[0] for found in seen] == [0]
    finally:
        gc.set_threshold(*before)
