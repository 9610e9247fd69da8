"""Cost models by name: contract, faults of theirs, files, and the key in descriptions."""

from __future__ import annotations

import math
import re
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler import CompileOptions, compile_model, load_target
from mcm_compiler.api import run_passes
from mcm_compiler.cli.main import cli
from mcm_compiler.components.cost_choice import (
    ChosenCosts,
    CostBasis,
    CostModelMaker,
    choose_cost_model,
    refuse_refuted_times,
    with_cost_model,
)
from mcm_compiler.components.cost_files import (
    MAX_COST_FILE_BYTES,
    held_files,
    user_files,
    with_cost_model_text,
)
from mcm_compiler.components.target_loading import load_cluster, target_from_text, without_chips
from mcm_compiler.contracts.cost import CostModel, KnowsViews, NodeCost
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.registry import COST_MODELS, register
from mcm_hardware.families.ring.ring_target import RingTarget
from mcm_hardware.measured_times.times_file import read_times

NOTHING = user_files(None)
PASSES = "simplify,fuse,annotate_cost,partition"


@dataclass(frozen=True)
class Flat:
    """A model with one time for everything."""

    seconds: Any
    name: str = "flat"

    def node_cost(self, node: ir.Node) -> NodeCost:
        return NodeCost(1.0, 1, 1, 0, self.seconds, "vector")

    def group_cost(self, nodes: Any) -> NodeCost:
        if isinstance(self.seconds, str):
            raise KeyError(self.seconds)
        return self.node_cost(nodes[0])


@dataclass(frozen=True)
class FlatCosts(CostModelMaker):
    """The maker of `Flat`."""

    name: ClassVar[str] = "flat"
    summary: ClassVar[str] = "one time for every kernel"

    microseconds: float = 1.0
    broken: str = ""

    def __post_init__(self) -> None:
        if self.microseconds == 13.0:
            raise ValueError("13 brings no luck")

    def make(self, basis: CostBasis) -> Any:
        if self.broken == "make":
            raise RuntimeError("no table today")
        if self.broken == "nothing":
            return object()
        return Flat(self.broken or self.microseconds * 1e-6)


@pytest.fixture(autouse=True)
def flat() -> Generator[None]:
    register("cost-model")(FlatCosts)
    COST_MODELS.add("no_maker", Flat, __name__)
    yield
    COST_MODELS.remove("flat")
    COST_MODELS.remove("no_maker")


def only(caught: pytest.ExceptionInfo[CompileError]) -> Diagnostic:
    (found,) = caught.value.diagnostics
    return found


def priced(text: str, target: str = "mcm4") -> Target:
    return with_cost_model(load_target(target), text, NOTHING)


def node() -> ir.Node:
    value = ir.Value(name="x", shape=ir.Shape([4, 4]), type=ir.TensorType(ir.DataType.FLOAT))
    made = ir.Node("", "Relu", [value], name="act")
    made.outputs[0].shape, made.outputs[0].type = value.shape, value.type
    return made


def test_a_chosen_model_gives_times_and_the_target_keeps_its_sizes() -> None:
    target, own = priced("flat{microseconds=3}"), load_target("mcm4").cost_model()
    costs: CostModel = target.cost_model()
    assert costs.name == "flat"
    assert costs.node_cost(node()).seconds == pytest.approx(3e-6)
    value = node().outputs[0]
    assert costs.storage_bytes(value) == own.storage_bytes(value) > 0
    assert isinstance(costs, KnowsViews)


def test_roofline_and_cycles_are_the_targets_own() -> None:
    own, op = load_target("mcm4").cost_model().node_cost(node()), node()
    assert priced("roofline").cost_model().node_cost(op) == own
    assert priced("cycles").cost_model().node_cost(op).seconds >= own.seconds
    assert priced("cycles").cost_model().name == "cycles"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("flatt", "MCM-U003", "unknown cost model 'flatt'"),
        ("flat{size=1}", "MCM-U002", "no option 'size'"),
        ("flat{microseconds=fast}", "MCM-U002", "not a number"),
        ("flat{microseconds=13}", "MCM-U002", "no luck"),
        ("flat{", "MCM-U001", "expected"),
        ("table", "MCM-U002", "needs the option 'file'"),
        ("no_maker", "MCM-C001", "no subclass of CostModelMaker"),
        ("flat{broken=make}", "MCM-C001", "RuntimeError: no table today"),
        ("flat{broken=nothing}", "MCM-C001", "lacks name, node_cost or group_cost"),
    ],
)
def test_what_cannot_be_chosen_is_told(text: str, code: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        priced(text)
    assert only(caught).code == code
    assert message in only(caught).message


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1e-9, 1e12])
def test_a_time_that_is_none_names_the_cost_model_and_the_op(seconds: float) -> None:
    costs = priced(f"flat{{microseconds={seconds * 1e6}}}").cost_model()
    for ask, asked in ((costs.node_cost, node()), (costs.group_cost, [node()])):
        with pytest.raises(CompileError) as caught:
            ask(asked)
        assert only(caught).code == "MCM-C002"
        assert "'flat'" in only(caught).message
        assert only(caught).at == "node 'act' (Relu)"


def test_a_cost_model_that_raises_names_the_op() -> None:
    with pytest.raises(CompileError) as caught:
        priced("flat{broken=oops}").cost_model().group_cost([node()])
    assert only(caught).code == "MCM-C001"
    assert f"cost model 'flat' of {__name__} fails: KeyError" in only(caught).message
    assert only(caught).at == "node 'act' (Relu)"


class Changed:
    """Answers as a model does, but for some fields."""

    name = "changed"

    def __init__(self, costs: Any, **fields: Any) -> None:
        self._costs, self._fields = costs, fields

    def node_cost(self, node: ir.Node) -> Any:
        return replace(self._costs.node_cost(node), **self._fields)

    def group_cost(self, nodes: Any) -> Any:
        return replace(self._costs.group_cost(nodes), **self._fields)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"seconds": "1"}, "seconds is a str, no number"),
        ({"bound_by": "luck"}, "bound_by is 'luck', and engines are array"),
        ({"trip": "far"}, "trip is no HostTrip"),
        ({"measured_ops": -1}, "operations or bytes that are no numbers"),
        ({"measured_s": float("nan")}, "operations or bytes that are no numbers"),
    ],
)
def test_answers_that_say_nothing_are_refused(fields: dict[str, Any], told: str) -> None:
    own = load_target("mcm4").cost_model()
    with pytest.raises(CompileError) as caught:
        ChosenCosts(Changed(own, **fields), own).node_cost(node())
    assert only(caught).code == "MCM-C001"
    assert told in only(caught).message


def test_a_cost_model_that_plays_less_than_its_own_bound_is_refused() -> None:
    target = priced("flat")
    refuse_refuted_times(target, 1.0, 1.0 - 1e-9)
    refuse_refuted_times(load_target("mcm4"), 1.0, 0.5)
    with pytest.raises(CompileError) as caught:
        refuse_refuted_times(target, 1.0, 0.5)
    assert (only(caught).code, only(caught).at) == ("MCM-C001", "cost model 'flat'")
    assert "no period is below 1 s, and one of 0.5 s is simulated" in only(caught).message


def test_a_compile_refuses_times_that_are_none() -> None:
    options = CompileOptions(passes=PASSES, cost_model="flat{microseconds=nan}")
    with pytest.raises(CompileError) as caught:
        run_passes("zoo:plain-cnn", "mcm4", options)
    assert only(caught).code == "MCM-C002"


def test_a_targets_own_model_is_held_to_it_as_well() -> None:
    own = load_target("mcm4")

    class Broken:
        def __getattr__(self, name: str) -> Any:
            return getattr(own, name)

        def cost_model(self) -> Flat:
            return Flat(-1.0, "of a stranger")

    options = CompileOptions(passes="simplify,annotate_cost")
    with pytest.raises(CompileError) as caught:
        run_passes("zoo:plain-cnn", Broken(), options)  # pyright: ignore[reportArgumentType]
    assert only(caught).code == "MCM-C002"
    assert "'of a stranger'" in only(caught).message


def test_a_target_that_takes_none_says_so() -> None:
    class Fixed:
        name = "fixed"

    with pytest.raises(CompileError) as caught:
        with_cost_model(Fixed(), "roofline", NOTHING)
    assert only(caught).code == "MCM-C003"


@pytest.mark.parametrize("name", ["mcm4", "mesh36", "mixed16"])
def test_kernels_can_leave_rows_of_the_array_idle(name: str) -> None:
    """Times are those of chips with fewer rows; memory and all else stay those of the target."""
    whole = load_target(name)
    smaller = target_from_text(name, re.sub(r"\brows = 64\b", "rows = 32", whole.source_text))
    spared = with_cost_model(whole, "cycles{rows=0.5}", NOTHING)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[70,64] x, float[64,130] w) '
        "=> (float[70,130] y) { y = MatMul (x, w) }"
    )
    (product,) = ir.from_proto(proto).graph
    seconds = [one.cost_model().node_cost(product).seconds for one in (whole, smaller, spared)]
    assert seconds[0] != seconds[1] == seconds[2]
    assert spared.limits == whole.limits
    # A bound under it holds for these rows alone, so that claims name them.
    names = [one.cost_model().name for one in (whole, smaller, spared)]
    assert names == ["cycles", "cycles", "cycles{rows=0.5}"]


@pytest.mark.parametrize(
    "load", [lambda: load_target("fabric-20"), lambda: load_cluster("config-a")]
)
def test_what_has_no_rows_leaves_none_idle(load: Any) -> None:
    with pytest.raises(CompileError) as caught:
        with_cost_model(load(), "cycles{rows=0.5}", NOTHING)
    assert only(caught).code == "MCM-C003"


@pytest.mark.parametrize("share", [0, 1.5])
def test_a_share_of_rows_is_above_nothing_and_at_most_all(share: float) -> None:
    with pytest.raises(CompileError) as caught:
        choose_cost_model(f"cycles{{rows={share}}}", NOTHING)
    assert only(caught).code == "MCM-U002"


def test_clusters_take_cost_models_too() -> None:
    cluster = with_cost_model(load_cluster("config-a"), "flat{microseconds=2}", NOTHING)
    assert cluster.cost_model().node_cost(node()).seconds == pytest.approx(2e-6)
    assert '[cost]\nmodel = "flat{microseconds=2.0}"' in cluster.source_text


def test_the_simulator_plays_what_the_search_is_charged_for() -> None:
    options = CompileOptions(
        passes=PASSES + ",legalize,split,lower,simulate", cost_model="flat", replicas=1
    )
    result = compile_model("zoo:plain-cnn", "mcm4", options)
    assert result.program is not None
    assert result.simulation is not None
    assert result.partition is not None
    durations = {k.duration_s for chip in result.program.chips for k in chip.kernels}
    assert durations == {1e-6}
    assert result.simulation.period_s >= result.partition.bound.seconds
    assert result.target.cost_model().name == "flat"
    assert result.simulation.period_s == pytest.approx(result.partition.period_s)


def test_chips_of_another_speed_take_their_share() -> None:
    slow = load_target("mcm4").source_text + "\n[[override]]\nchips = [0, 1, 2, 3]\nspeed = 0.5\n"
    target = target_from_text("slow", slow)
    options = CompileOptions(passes=PASSES + ",legalize,split,lower", cost_model="flat", replicas=1)
    result = compile_model("zoo:plain-cnn", target, options)
    assert result.program is not None
    assert {k.duration_s for chip in result.program.chips for k in chip.kernels} == {2e-6}


def test_chips_that_are_left_out_leave_the_cost_model() -> None:
    smaller = without_chips(priced("flat"), [1])
    assert smaller.limits.num_chips == 3
    assert smaller.cost_model().name == "flat"
    again = target_from_text("again", smaller.source_text)
    assert again.cost_model().name == "flat"


def test_relays_take_no_time_of_an_op_that_is_called_so() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> m (float[64] x) => (float[64] y) {
        [relay] a = Relu (x)  [b] b = Exp (a)  [c] c = Tanh (b)  [y] y = Add (a, c) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    read = {"t.csv": b"node,seconds\nrelay,1\n"}.__getitem__
    target = with_cost_model(load_target("mcm4"), "table{file=t.csv,factor=1}", read)
    options = CompileOptions(passes=PASSES + ",legalize,split,lower")
    result = compile_model(model, target, options)
    assert result.problem is not None
    assert result.problem.compute_s.max() >= 1.0
    assert result.problem.relay_s.max() < 1e-3


# Files


def write(folder: Path, text: str = "kernel,seconds\n/fc/Gemm,1e-3\n") -> Path:
    (folder / "times.csv").write_text(text)
    return folder


def test_paths_are_replaced_by_the_names_in_an_output_folder(tmp_path: Path) -> None:
    (write(tmp_path) / "times.csv").rename(tmp_path / "my times.csv")
    choice = choose_cost_model('table{file="my times.csv"}', user_files(tmp_path))
    assert choice.text == "table{file=cost_model.file.csv}"
    assert list(choice.stored) == ["cost_model.file.csv"]
    (tmp_path / "my times.csv").rename(tmp_path / "times.gz;!")
    choice = choose_cost_model('table{file="times.gz;!"}', user_files(tmp_path))
    assert list(choice.stored) == ["cost_model.file"]


@pytest.mark.parametrize("case", ["missing", "folder", "large", "nul"])
def test_files_that_cannot_be_read_are_told(tmp_path: Path, case: str) -> None:
    path = tmp_path / "t.csv"
    name = "t\0.csv" if case == "nul" else "t.csv"
    if case == "folder":
        path.mkdir()
    elif case == "large":
        with path.open("wb") as file:
            file.truncate(MAX_COST_FILE_BYTES + 1)
    with pytest.raises(CompileError) as caught:
        choose_cost_model(f"table{{file={name}}}", user_files(tmp_path))
    assert only(caught).code == "MCM-C004"
    assert only(caught).hint


def test_a_table_is_read_once_for_search_and_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcm_hardware.measured_times import table

    reads: list[str] = []

    def read(data: bytes, path: str, chip: str) -> Any:
        reads.append(path)
        return read_times(data, path, chip)

    monkeypatch.setattr(table, "_read_once", lru_cache(maxsize=1)(read))
    path = write(tmp_path) / "times.csv"
    target = with_cost_model(load_target("mcm4"), f"table{{file={path}}}", user_files(tmp_path))
    assert isinstance(target, RingTarget)
    assert target.costs.searched.name == target.costs.played.name == "table"
    assert reads == [str(path)]


def test_a_table_of_another_model_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "kernel,seconds\n/fc/Gemm,1e-3\n/fc/Gem,1\n") / "times.csv"
    options = CompileOptions(passes=PASSES, cost_model=f"table{{file={path}}}")
    with pytest.raises(CompileError) as caught:
        run_passes("zoo:plain-cnn", "mcm4", options)
    found = only(caught)
    assert (found.code, found.at) == ("MCM-C006", f"{path}:3")
    assert "'/fc/Gemm'" in (found.hint or "")


@pytest.mark.parametrize(
    ("text", "measured", "severity"),
    [
        ("kernel,seconds\n/fc/Gemm,1e-3\n", "1 of 54 ops", "warning"),
        ("op_type,inputs,type,seconds\nRelu,1,float,1\n", "0 of 54 ops", "warning"),
    ],
)
def test_the_part_that_was_measured_is_told(
    tmp_path: Path, text: str, measured: str, severity: str
) -> None:
    path = write(tmp_path, text) / "times.csv"
    options = CompileOptions(passes=PASSES, cost_model=f"table{{file={path}}}")
    _, notes, _ = run_passes("zoo:plain-cnn", "mcm4", options)
    (note,) = [note for note in notes if note.code == "MCM-C007"]
    assert measured in note.message
    assert note.severity.value == severity


# Descriptions


MCM4 = load_target("mcm4").source_text


def described(folder: Path, cost: str, text: str = MCM4) -> Path:
    path = folder / "mine.toml"
    path.write_text(f"{text}\n{cost}\n")
    return path


def test_a_description_names_its_cost_model_and_files_beside_it(tmp_path: Path) -> None:
    path = described(write(tmp_path), '[cost]\nmodel = "table{file=times.csv}"  # of March')
    target = load_target(str(path))
    assert target.cost_model().name == "table"
    assert target.source_text.endswith('[cost]\nmodel = "table{file=cost_model.file.csv}"\n')
    assert "March" not in target.source_text


def test_an_option_overrides_the_description(tmp_path: Path) -> None:
    path = described(tmp_path, '[cost]\nmodel = "flat"')
    options = CompileOptions(passes="simplify,annotate_cost", cost_model="cycles")
    assert load_target(str(path)).cost_model().name == "flat"
    result = compile_model("zoo:plain-cnn", str(path), options)
    assert result.target.cost_model().name == "cycles"
    assert result.target.source_text.count("model =") == 1


@pytest.mark.parametrize(
    ("cost", "code"),
    [
        ('[cost]\nmodel = "flatt"', "MCM-U003"),
        ("[cost]\nmodel = 3", "MCM-T004"),
        ('[cost]\nmodle = "flat"', "MCM-T002"),
        ("cost = 3", "MCM-T004"),
        ('[cost]\nmodel = "table{file=gone.csv}"', "MCM-C004"),
    ],
)
def test_faults_of_the_key_are_told(tmp_path: Path, cost: str, code: str) -> None:
    # A key without a table has to stand first.
    text = f"{cost}\n{MCM4}" if cost.startswith("cost") else f"{MCM4}\n{cost}"
    path = described(tmp_path, "", text)
    with pytest.raises(CompileError) as caught:
        load_target(str(path))
    assert only(caught).code == code


def test_an_unknown_name_in_a_description_is_told_with_its_line(tmp_path: Path) -> None:
    path = described(tmp_path, '[cost]\nmodel = "flatt"')
    with pytest.raises(CompileError) as caught:
        load_target(str(path))
    line = path.read_text().splitlines().index('model = "flatt"') + 1
    assert only(caught).at == f"{path}:{line}: 'cost.model'"


def test_a_description_without_a_folder_names_no_files() -> None:
    text = MCM4 + '\n[cost]\nmodel = "table{file=/etc/passwd}"\n'
    with pytest.raises(CompileError) as caught:
        target_from_text("loose", text)
    assert only(caught).code == "MCM-C004"
    with pytest.raises(CompileError) as caught:
        RingTarget.from_text("loose", text).cost_model()
    assert only(caught).code == "MCM-C004"


@pytest.mark.parametrize(
    "given",
    [
        "",
        '\n[cost]\nmodel = "cycles"\n',
        '\n[cost]   # here\n  "model"="cycles" # and there\n',
        "\n['cost']\nmodel = 'cycles'",
    ],
)
def test_descriptions_are_rewritten_once(given: str) -> None:
    once = with_cost_model_text("mine", MCM4 + given, 'table{file="a b"}')
    assert target_from_text("mine", once.replace('table{file=\\"a b\\"}', "cycles"))
    assert with_cost_model_text("mine", once, 'table{file="a b"}') == once


def test_a_key_above_all_tables_is_rewritten() -> None:
    once = with_cost_model_text("mine", f'cost.model = "cycles"\n{MCM4}', "roofline")
    assert once == f'cost.model = "roofline"\n{MCM4}'


@pytest.mark.parametrize(
    "given", ['cost = { model = "cycles" }\n', 'cost.model = """\ncycles"""\n']
)
def test_a_form_that_cannot_be_rewritten_is_refused(given: str) -> None:
    with pytest.raises(CompileError) as caught:
        with_cost_model_text("mine", given + MCM4, "roofline")
    assert only(caught).code == "MCM-C008"
    assert only(caught).at == "mine:1: 'cost.model'"


def test_choices_of_equal_text_and_files_are_equal(tmp_path: Path) -> None:
    read = user_files(write(tmp_path))
    first, second = (choose_cost_model("table{file=times.csv}", read) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != replace(second, stored={})


def test_a_target_in_memory_is_compiled_with_the_cost_model_that_its_description_names(
    tmp_path: Path,
) -> None:
    from mcm_compiler.checking.check import check_folder

    target = RingTarget.from_text("mine", MCM4 + '\n[cost]\nmodel = "flat{ microseconds = 2 }"\n')
    options = CompileOptions(replicas=1, chips=2, inferences=8)
    result = compile_model("zoo:bert-tiny", target, options, output=tmp_path / "out")
    assert result.partition is not None
    assert result.target.cost_model().name == "flat"
    found = check_folder(tmp_path / "out", seeds=(0,))
    assert found.diagnostics == ()
    assert found.holds
    text = (tmp_path / "out" / "target.toml").read_text()
    assert text.endswith('model = "flat{microseconds=2.0}"\n')


def test_targets_show_and_validate_know_the_key(tmp_path: Path) -> None:
    path = str(described(write(tmp_path), '[cost]\nmodel = "table{file=times.csv}"'))
    shown = CliRunner().invoke(cli, ["targets", "show", path])
    assert "table{file=cost_model.file.csv}" in shown.stdout
    assert CliRunner().invoke(cli, ["targets", "validate", path]).exit_code == 0
    (tmp_path / "times.csv").write_text("kernel,seconds\na,-1\n")
    refused = CliRunner().invoke(cli, ["targets", "validate", path])
    assert refused.exit_code == 1
    assert "MCM-C005" in refused.stderr


@pytest.mark.parametrize("further", [1, 2, 1000])
def test_a_file_of_a_cost_model_that_is_too_large_has_its_size_in_the_message(
    tmp_path: Path, further: int
) -> None:
    size = MAX_COST_FILE_BYTES + further
    with (tmp_path / "t.csv").open("wb") as file:
        file.truncate(size)
    for read in (user_files(tmp_path), held_files({"t.csv": bytes(size)})):
        with pytest.raises(CompileError) as caught:
            read("t.csv")
        expected = f"it has {size:,} bytes, more than {MAX_COST_FILE_BYTES:,}"
        assert only(caught).message.endswith(expected)
