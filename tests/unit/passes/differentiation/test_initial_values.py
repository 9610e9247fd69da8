import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_passes.differentiation.variables import filled_tensor, write_initial_values

VALUES = {
    "layer/0.weight": ir.tensor(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "count": filled_tensor("count", (), ir.DataType.FLOAT, 0),
}


def test_numpy_reads_what_was_written(tmp_path):
    path = tmp_path / "values.npz"
    write_initial_values(VALUES, path)
    with np.load(path) as found:
        assert sorted(found) == sorted(VALUES)
        for name, tensor in VALUES.items():
            np.testing.assert_array_equal(found[name], tensor.numpy())
            assert found[name].dtype == np.float32


def test_the_bytes_depend_on_the_values_alone(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_initial_values(VALUES, tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz"]


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(CompileError, match="MCM-U050"):
        write_initial_values(VALUES, tmp_path)
