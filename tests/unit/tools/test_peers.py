"""Peers in one table: one judge for all, failures in their own words, a page that is its data's."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_passes.mapping.machine.evaluation import evaluate
from tests.generators.branching_problems import branching_problem

BENCH = Path(__file__).parents[3] / "tools" / "bench"
DATA = BENCH / "data" / "peers.json"
PAGE = BENCH.parents[1] / "docs" / "results" / "peers.md"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return lambda name: importlib.import_module(f"peer_cases.{name}")


def chain(units: int = 4, chips: int = 3) -> PartitionProblem:
    """Units in a row, each of two ops and a millisecond."""
    last = units - 1
    return PartitionProblem(
        names=tuple(f"unit{u}" for u in range(units)),
        members=tuple((f"op{u}a", f"op{u}b") for u in range(units)),
        compute_s=np.full(units, 1e-3),
        clonable=np.zeros(units, np.bool_),
        pinned_chip=np.full(units, -1, np.int32),
        tensor_names=tuple(f"t{u}" for u in range(units)),
        tensor_bytes=np.full(units, 1000),
        tensor_producer=np.arange(units, dtype=np.int32),
        tensor_ptr=np.minimum(np.arange(units + 1), last).astype(np.int64),
        tensor_consumers=np.arange(1, units, dtype=np.int32),
        tensor_to_host=np.arange(units) == last,
        relay_s=np.full(units, 1e-6),
        weight_names=(),
        weight_bytes=np.zeros(0, np.int64),
        weight_ptr=np.zeros(1, np.int64),
        weight_users=np.zeros(0, np.int32),
        limits=PackageLimits(chips, (1 << 30,) * chips, 1e9, 1e-6, "any", 1e9),
        routing="relay",
    )


def test_parts_in_a_circle_are_invalid_and_repaired(tool: Any) -> None:
    problem = chain()
    found = tool("judging").judged(problem, np.array([0, 1, 0, 1]))
    assert found.period_s is None
    assert found.circular == 2
    assert "against the direction" in found.fault
    assert found.moved >= 1
    assert evaluate(problem, found.repaired).valid
    assert found.value_s == found.repaired_s == evaluate(problem, found.repaired).period_s


def test_ops_say_where_their_unit_goes(tool: Any) -> None:
    part_of = {"op0a": 5, "op0b": 5, "op1a": 5, "op1b": 8, "op3a": 9, "gone": 1}
    parts, divided = tool("judging").parts_of_ops(chain(), part_of)
    # Of a unit with an op here and one there the last part, of a nameless one that before.
    assert parts.tolist() == [0, 1, 1, 2]
    assert divided == 1


def test_pieces_of_a_clonable_unit_stand_on_each_chip_that_reads_it(tool: Any) -> None:
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    shape = ("x", onnx.TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph(
        [
            node("Neg", ["x"], ["c"], name="copied"),
            node("Abs", ["c"], ["a"], name="first"),
            node("Neg", ["w"], ["v"], name="constant"),
            node("Sum", ["a", "c", "v"], ["y"], name="second"),
        ],
        "g",
        [value(*shape)],
        [value("y", *shape[1:])],
        [onnx.numpy_helper.from_array(np.zeros(2, np.float32), "w")],
        value_info=[value(name, *shape[1:]) for name in "ca"],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    proto = onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)

    class Problem:
        members = (("copied",), ("first",), ("second",))
        clonable = np.array([True, False, False])

    class Case:
        problem = Problem

    chips = np.array([0, 0, 1])
    first, second = tool("chains").pieces_of(Case, proto, chips)
    assert [n.name for n in first.graph.node] == ["copied", "first"]
    assert [n.name for n in second.graph.node] == ["copied", "constant", "second"]
    assert [v.name for v in second.graph.input] == ["a", "x"]
    whole = object.__new__(tool("chains").Whole)
    whole.feeds = {"x": np.array([1.0, -2.0], np.float32)}
    whole.outputs = {"y": np.array([0.0, 4.0], np.float32)}
    assert whole.against([second, first]).equal
    late = whole.against([second])
    assert not late.equal
    assert late.fault == "no piece can run that makes 'y'"


def test_a_failure_is_quoted_in_its_own_words(tool: Any) -> None:
    environments = tool("environments")
    with pytest.raises(environments.PeerFailedError) as caught:
        environments.ask(Path(sys.executable), "import_only", {"module": "no_such_peer"})
    assert str(caught.value) == "ModuleNotFoundError: No module named 'no_such_peer'"


def test_pip_that_fails_is_no_answer(
    tool: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environments = tool("environments")
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    (tmp_path / "odd").mkdir()
    known = {"requirements": ["odd==1"], "fault": "ERROR: none found"}
    (tmp_path / "odd" / "installed.json").write_text(json.dumps(known))
    environment = environments.Environment("odd", ("odd==1",))
    with pytest.raises(environments.PeerFailedError, match="ERROR: none found"):
        environment.ask("import_only", {"module": "odd"})


def test_the_page_is_that_of_the_data(tool: Any) -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == tool("page").page(data)


def test_our_period_is_that_on_record(tool: Any) -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    recorded = next(row["ours"] for row in data["models"] if row["model"] == "U-Net")
    found = tool("ours").searched(tool("cases").build_case("U-Net", 1))
    assert found["period_s"] == pytest.approx(recorded["period_s"], rel=1e-3)


def test_the_data_is_of_all_models_and_programs(tool: Any) -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    programs = tool("programs").programs()
    assert list(data["programs"]) == list(programs)
    assert [model["model"] for model in data["models"]] == list(tool("cases").MODELS)
    for model in data["models"]:
        asked = [n for n, one in programs.items() if not one.only or model["model"] in one.only]
        assert list(model["rows"]) == asked
        assert model["ours"]["bound_s"] <= model["ours"]["period_s"] * (1.0 + 1e-9)
        assert model["compiled"]["holds"]


def small_data() -> dict[str, Any]:
    """Two programs on a model: one that is better than ours after repair, one that fails."""
    found = {
        "status": "found", "period_s": None, "repaired_s": 0.5e-3, "rule": "a rule", "circular": 3,
        "moved": 2, "parts": 4, "chips": 5, "cpu_s": 0.25, "wall_s": 0.5, "note": "a note",
        "chain": {"pieces": 5, "equal": True, "largest_error": 0.0, "fault": "", "of": "repaired"},
    }  # fmt: skip
    program = {
        "distribution": "d",
        "version": "1",
        "how": "so",
        "checks": "nothing: it",
        "install": None,
    }
    ours = {
        "period_s": 1e-3, "bound_s": 1e-3, "argument": "why", "simulated_s": 1e-3, "chips_used": 4,
        "found_by": "dp", "cpu_s": 1.0, "wall_s": 1.0,
    }  # fmt: skip
    whole = {
        "cpu_s": 3.0, "wall_s": 4.0, "period_s": 1e-3, "holds": True, "bit_equal": True,
        "outputs": 1, "ops_proven": 9, "ops": 9,
    }  # fmt: skip
    return {
        "command": "python x",
        "note": "A remark.", "target": "mcm36", "passes": "simplify", "seeds": [0, 1],
        "context": {"versions": {"onnx": "1"}, "python": "3", "cpus": 2, "machine": "m"},
        "programs": {"A": program, "B": program},
        "models": [
            {
                "model": "M", "source": "zoo:m", "ops": 12, "units": 6, "weights_mib": 1.5,
                "chips": 36, "ours": ours, "compiled": whole,
                "rows": {"A": found, "B": {"status": "failed", "quote": "ValueError: a|b"}},
            }
        ],
    }  # fmt: skip


def test_the_page_says_where_another_is_better_and_what_failed(tool: Any) -> None:
    text = tool("page").page(small_data())
    assert "seeds 0 to 1. A remark." in text
    assert "| A | M (50.0 % shorter, after repair) | 1 model |" in text
    assert "| B | all | `ValueError: a/b` |" in text
    assert " | 0.50 * |" in text
    assert tool("bars").bars(small_data())[0].value == pytest.approx(2.0)


def test_a_part_of_the_run_replaces_a_part_of_the_record(tool: Any) -> None:
    known, new = small_data(), small_data()
    new["programs"] = {"B": new["programs"]["B"]}
    new["models"][0]["rows"] = {"B": {"status": "failed", "quote": "other"}}
    both = tool("records").merged(known, new, ["A", "B"], ["L", "M"])
    assert list(both["programs"]) == ["A", "B"]
    assert both["models"][0]["rows"]["A"]["status"] == "found"
    assert both["models"][0]["rows"]["B"]["quote"] == "other"
    assert tool("records").merged({}, new, ["A", "B"], ["M"])["models"] == new["models"]


def test_the_graph_of_ops_is_symmetric_with_positive_whole_weights(tool: Any) -> None:
    graphs = tool("op_graphs")
    problem = branching_problem(chains=graphs.CLIQUE + 2, length=2)
    graph = graphs.weighted_graph(problem)
    rows = np.repeat(np.arange(graph.units.size), np.diff(graph.ptr))
    pairs = zip(rows.tolist(), graph.neighbours.tolist(), strict=True)
    weight = dict(zip(pairs, graph.edge_weight.tolist(), strict=True))
    assert all(weight[b, a] == w for (a, b), w in weight.items())
    assert min(weight.values()) >= 1
    assert graph.unit_weight.min() >= 1
    # The source's tensor has too many readers for a clique: they are no neighbours.
    readers = problem.tensor_consumers[problem.tensor_ptr[1] : problem.tensor_ptr[2]].tolist()
    assert all((0, reader) in weight for reader in readers)
    assert (readers[0], readers[1]) not in weight


@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_parts_that_break_every_rule_are_repaired(tool: Any, routing: str) -> None:
    problem = branching_problem(routing, pins=((5, 1),))
    rng = np.random.default_rng(0)
    wanted = rng.integers(0, problem.num_chips, problem.num_units).astype(np.int32)
    valid = [evaluate(problem, row) for row in tool("op_graphs").repaired(problem, wanted, rng)]
    assert any(one.valid and one.chip_of[5] == 1 for one in valid)
