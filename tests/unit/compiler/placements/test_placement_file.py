"""Reading placement problems: what is taken, and every way in which a file can be wrong."""

from __future__ import annotations

import json

import pytest

from mcm_compiler.arrays.dags import find_circle
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.placement_file import read_placement, with_devices
from mcm_compiler.text.json_text import MAX_DEPTH, UnreadableError, parse_json, read_bounded
from mcm_passes.mapping.device_placement.device_groups import device_groups
from tests.generators.placement_examples import PUBLISHED, example, node, problem_data


def code_and_text(path):
    with pytest.raises(CompileError) as caught:
        read_placement(path)
    return caught.value.diagnostics[0].code, str(caught.value)


def test_a_published_input_is_read():
    problem = read_placement(PUBLISHED / "op_bert3.json")
    assert problem.num_operators == 235
    assert problem.max_accelerators == 3
    assert problem.max_cpus == 1
    assert problem.names[0] == "cls.seq_relationship.weight"
    assert problem.edge_source.size == 250
    # Eleven nodes have a color of their own.
    assert int(problem.color.max()) + 1 == 128


def test_names_that_are_missing_or_not_distinct_get_ids():
    assert example([node(4, 1.0), node(7, 1.0, name="b")], []).names == ("node4", "b")
    twice = example([node(4, 1.0, name="a"), node(7, 1.0, name="a")], [])
    assert twice.names == ("a#4", "a#7")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[]", "is a list, not an object"),
        ("{}", "maxSizePerFPGA is missing"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ("[" * 100_000, "deep"),
        ('{"a": "\0"}', "NUL"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_what_is_no_problem_is_refused(tmp_path, text, words):
    path = tmp_path / "bad.json"
    path.write_text(text)
    code, message = code_and_text(path)
    assert code == "MCM-F001"
    assert words in message


def test_files_that_cannot_be_read_are_refused(tmp_path):
    assert "No such file" in code_and_text(tmp_path / "none.json")[1]
    assert "not a regular file" in code_and_text(tmp_path)[1]
    latin = tmp_path / "latin.json"
    latin.write_bytes(b'{\n"\xff')
    assert "line 2 is not UTF-8" in code_and_text(latin)[1]
    with pytest.raises(UnreadableError, match="it has 4 bytes, more than 2"):
        read_bounded(latin, 2)


def test_depth_does_not_count_brackets_in_names():
    names = ["[" * 50, '\\"{{{', "\\"]
    assert parse_json(json.dumps(names)) == names
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(UnreadableError):
        parse_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize("text", ['"' + '\\"' * 200_000, "[" + '"a' * 99_999, "\\" * 300_000])
def test_broken_strings_take_one_look(text):
    with pytest.raises(UnreadableError):
        parse_json(text)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"fpgaLatency": -1.0}, "MCM-F002", "nodes[0].fpgaLatency is -1.0"),
        ({"size": 1e101}, "MCM-F002", "nodes[0].size"),
        ({"id": 1}, "MCM-F003", "has the id 1 of another node"),
        ({"id": "a"}, "MCM-F001", "nodes[0].id is 'a', not a whole number"),
        ({"supportedOnFpga": 2}, "MCM-F001", "not true or false or one of 0, 1"),
    ],
)
def test_wrong_nodes_are_refused(tmp_path, change, code, words):
    data = problem_data([node(0, 1.0) | change, node(1, 1.0)], [])
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    found, message = code_and_text(path)
    assert found == code
    assert words in message


def test_infinite_costs_in_a_number_are_refused(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(problem_data([node(0, 1.0)], [])).replace("1.0", "1e999", 1))
    assert code_and_text(path)[0] == "MCM-F002"


@pytest.mark.parametrize(
    ("edges", "code", "words"),
    [
        ([(0, 9, 1.0)], "MCM-F003", "edges[0].destId is 9, and no node has that id"),
        ([(0, 1, 1.0), (0, 2, 2.0)], "MCM-F003", "in 2, and an edge before in 1"),
        ([(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0)], "MCM-F004", "a cycle of 2 nodes"),
        ([(1, 1, 1.0)], "MCM-F004", "a cycle of 1 node:"),
    ],
)
def test_wrong_edges_are_refused(tmp_path, edges, code, words):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(problem_data([node(v, 1.0) for v in range(3)], edges)))
    found, message = code_and_text(path)
    assert found == code
    assert words in message


def test_many_faults_of_a_kind_are_counted(tmp_path):
    edges = [(0, 100 + k, 1.0) for k in range(30)]
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(problem_data([node(0, 1.0)], edges)))
    with pytest.raises(CompileError) as caught:
        read_placement(path)
    assert len(caught.value.diagnostics) == 21
    assert "10 more faults" in caught.value.diagnostics[-1].message


def test_a_problem_without_nodes_is_refused():
    with pytest.raises(CompileError, match="no nodes"):
        example([], [])


def test_more_devices_than_nodes_are_refused():
    problem = example([node(0, 1.0), node(1, 1.0)], [])
    assert with_devices(problem, 1, 1).max_cpus == 1
    with pytest.raises(CompileError, match="3 devices are asked for, and the problem has 2"):
        with_devices(problem, 2, 1)


def test_cycles_are_found_beside_what_leads_there():
    source, target = [0, 1, 2, 3, 3], [1, 2, 3, 1, 4]
    cycle = find_circle(zip(source, target, strict=True))
    assert sorted(cycle) == [1, 2, 3]
    pairs = set(zip(source, target, strict=True))
    assert all(pair in pairs for pair in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_colors_that_form_a_cycle_are_one_group():
    # The colors 0 and 1 feed each other.
    nodes = [node(v, 1.0, colorClass=v % 2) for v in range(4)]
    groups = device_groups(example(nodes, [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)]))
    assert groups.count == 1
    assert groups.accelerator_time.tolist() == [4.0]
