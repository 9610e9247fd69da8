"""Data sets in ONNX's layout, read, refused, and compared."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.checking.comparison.user_data import (
    RunData,
    compare_expected,
    read_data_sets,
    runtime_value,
)
from mcm_compiler.diagnostics import CompileError


def model():
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("SequenceAt", ["s", "i"], ["a"]),
            helper.make_node("Add", ["a", "w"], ["y"]),
        ],
        "g",
        [
            helper.make_value_info("s", helper.make_sequence_type_proto(tensor)),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        [weight],
    )
    return ir.from_proto(helper.make_model(graph, ir_version=8))


def write(folder, name, message):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(message.SerializeToString())


def data_folder(tmp_path, number=0):
    folder = tmp_path / f"test_data_set_{number}"
    items = [np.float32([1, 2]), np.float32([3, 4])]
    write(folder, "input_0.pb", numpy_helper.from_list(items, "s"))
    write(folder, "input_1.pb", numpy_helper.from_array(np.array(number, np.int64)))
    write(folder, "output_0.pb", numpy_helper.from_array(items[number] + 1))
    return folder


def refusal(path):
    with pytest.raises(CompileError) as caught:
        read_data_sets(path, model())
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-V011"
    return fault.message


def test_all_sets_beside_a_model_are_read_by_number(tmp_path):
    data_folder(tmp_path, 1)
    data_folder(tmp_path, 0)
    (tmp_path / "test_data_set_x").mkdir()
    first, second = read_data_sets(tmp_path, model())
    assert [first.name, second.name] == ["test_data_set_0", "test_data_set_1"]
    # Inputs are counted without weights.
    assert set(first.inputs) == {"s", "i"}
    assert [item.tolist() for item in first.inputs["s"]] == [[1, 2], [3, 4]]
    assert second.expected["y"].tolist() == [4, 5]


def test_one_set_by_its_own_folder(tmp_path):
    (found,) = read_data_sets(data_folder(tmp_path), model())
    assert found.expected["y"].tolist() == [2, 3]


def test_mcm_v011_folders_and_files_that_cannot_be_used(tmp_path):
    assert "not a folder" in refusal(tmp_path / "missing")
    assert "no test_data_set_N" in refusal(tmp_path)
    folder = data_folder(tmp_path)
    (folder / "input_1.pb").write_bytes(b"\xff\xff")
    refusal(tmp_path)
    write(folder, "input_1.pb", TensorProto(data_type=TensorProto.FLOAT, dims=[3], raw_data=b"1"))
    refusal(tmp_path)
    write(folder, "input_7.pb", TensorProto())
    write(folder, "input_1.pb", numpy_helper.from_array(np.array(0, np.int64)))
    assert "only 2 inputs" in refusal(tmp_path)


def test_messages_of_every_kind():
    tensor = numpy_helper.from_array(np.array(["a", "b"], object))
    assert runtime_value(tensor).tolist() == ["a", "b"]
    assert runtime_value(onnx.OptionalProto()) is None
    kind = onnx.OptionalProto.SEQUENCE
    held = onnx.OptionalProto(
        elem_type=kind, sequence_value=numpy_helper.from_list([np.float32([1])])
    )
    assert [item.tolist() for item in runtime_value(held)] == [[1]]
    mapping = onnx.MapProto(key_type=TensorProto.STRING, string_keys=[b"k"])
    mapping.values.CopyFrom(numpy_helper.from_list([np.float32([2])]))
    assert runtime_value(mapping)["k"].tolist() == [2]


@pytest.mark.parametrize(
    ("expected", "actual", "holds"),
    [
        (np.float32([1, 2]), np.float32([1, 2.001]), True),
        (np.float32([1, 2]), np.float32([1, 2.1]), False),
        (np.float32([1, 2]), np.float64([1, 2]), False),
        (np.float32([np.nan]), np.float32([np.nan]), True),
        ([np.float32([1])], [np.float32([1])], True),
        ([np.float32([1])], [], False),
        (np.array(["a"], object), np.array(["b"], object), False),
        (np.array([True]), np.array([False]), False),
        (None, None, True),
        (None, np.float32([1]), False),
    ],
)
def test_outputs_against_expected_ones(expected, actual, holds):
    (found,) = compare_expected(RunData("d", {}, {"y": expected}), {"y": actual})
    assert found.holds is holds
    assert (found.output, found.data_set) == ("y", "d")
