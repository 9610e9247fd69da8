"""Parts of weights that are one run of elements, or several."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.parallelism.oversized.weight_slices import (
    Slice,
    WeightSlicer,
    can_slice,
    slice_tensor,
)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("runs", "start", "stop"), [(1, 2, 5), (2, 0, 1), (3, 1, 2), (6, 0, 1)])
def test_a_part_has_the_same_elements_of_each_run(axis, runs, start, stop):
    array = np.arange(6**3, dtype=np.float32).reshape(6, 6, 6)
    cut = Slice(axis, start, stop, runs)
    chosen = [at for at in range(6) if start <= at % (6 // runs) < stop]
    expected = array.take(chosen, axis)
    part = slice_tensor(ir.Tensor(array, name="w"), cut, "part")
    assert tuple(part.shape.numpy()) == cut.of_shape(array.shape) == expected.shape
    assert cut.extent == len(chosen)
    assert np.array_equal(part.numpy(), expected)


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.BFLOAT16, ir.DataType.INT4])
@pytest.mark.parametrize("cut", [Slice(0, 1, 2, 3), Slice(1, 2, 700), Slice(1, 3, 250, 3)])
def test_a_part_of_a_file_is_written_block_by_block_and_the_file_is_let_go(tmp_path, dtype, cut):
    values = np.arange(600 * 900) % 7
    array = ir.Tensor(values.reshape(600, 900).astype(dtype.numpy()), dtype=dtype)
    (tmp_path / "w.data").write_bytes(array.tobytes())
    tensor = ir.ExternalTensor(
        "w.data", 0, array.nbytes, dtype,
        shape=ir.Shape([600, 900]), name="w", base_dir=tmp_path,
    )  # fmt: skip
    with (tmp_path / "part.data").open("wb") as file:
        slice_tensor(tensor, cut, "part").tofile(file)
    expected = ir.Tensor(cut.of_array(array.numpy()), dtype=dtype)
    assert (tmp_path / "part.data").read_bytes() == expected.tobytes()
    assert tensor.raw is None


def test_one_run_of_rows_stays_a_place_in_the_file_and_several_are_read(tmp_path):
    array = np.arange(24, dtype=np.float32).reshape(12, 2)
    (tmp_path / "w.data").write_bytes(array.tobytes())
    tensor = ir.ExternalTensor(
        "w.data", 0, array.nbytes, ir.DataType.FLOAT,
        shape=ir.Shape([12, 2]), name="w", base_dir=tmp_path,
    )  # fmt: skip
    one = slice_tensor(tensor, Slice(0, 4, 8), "one")
    assert isinstance(one, ir.ExternalTensor)
    assert np.array_equal(one.numpy(), array[4:8])
    several = slice_tensor(tensor, Slice(0, 1, 2, 3), "several")
    assert np.array_equal(several.numpy(), array[[1, 5, 9]])
    # Parts are for all who have the same file open.
    assert np.array_equal(tensor.numpy(), array)


def test_runs_of_a_computed_weight_are_those_of_what_it_is_computed_from():
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    stored = ir.Tensor(array, name="w")
    weight = ir.Value(
        name="w", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4, 6]), const_value=stored
    )
    turned = ir.node("Transpose", [weight], {"perm": [1, 0]}, name="turn")
    turned.outputs[0].shape = ir.Shape([6, 4])
    turned.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    turned.outputs[0].name = "turned"
    reader = ir.node("Relu", [turned.outputs[0]], name="reader")
    graph = ir.Graph([], reader.outputs, nodes=[turned, reader], name="g", initializers=[weight])
    assert can_slice(turned.outputs[0])
    slicer = WeightSlicer(graph, UnusedNames(graph))
    cut = Slice(0, 1, 2, 3)
    part = slicer.part(turned.outputs[0], cut, reader)
    assert slicer.part(turned.outputs[0], cut, reader) is part
    assert part.shape == ir.Shape([3, 4])
    source = part.producer().inputs[0]
    assert np.array_equal(source.const_value.numpy(), array[:, [1, 3, 5]])
