import numpy as np

from mcm_compiler.page.contents import Compiled
from mcm_compiler.page.graph_view import graph_data, graph_section
from tests.oracles.unpacked import unpacked


def test_boxes_and_edges_are_those_of_the_problem(chain):
    data = graph_section(chain).view.data
    problem = chain.certificate.problem
    assert unpacked(data["names"]) == list(problem.names)
    assert unpacked(data["places"]).tolist() == chain.certificate.placement.tolist()
    assert np.allclose(unpacked(data["seconds"]), problem.compute_s)
    edges = set(zip(unpacked(data["from"]).tolist(), unpacked(data["to"]).tolist(), strict=True))
    assert edges == {
        (int(problem.tensor_producer[t]), int(reader))
        for t in range(len(problem.tensor_names))
        for reader in problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        if problem.tensor_producer[t] >= 0
    }


def test_ops_inside_of_kernels_go_along_for_the_search(chain):
    data = graph_section(chain).view.data
    problem = chain.certificate.problem
    members = dict(zip(unpacked(data["fused"]).tolist(), unpacked(data["members"]), strict=True))
    for i, own in enumerate(problem.members):
        assert members.get(i, problem.names[i]).replace("\\n", "\n").split("\n") == list(own)


def test_types_are_stored_once_each():
    none = np.zeros(0, np.int32)
    data = graph_data(["a", "b", "c"], ["Add", "Mul", "Add"], np.ones(3), np.arange(3), none, none)
    assert data["kinds"] == ["Add", "Mul"]
    assert unpacked(data["kind"]).tolist() == [0, 1, 0]


def test_without_a_folder_there_is_no_graph(chain):
    assert graph_section(Compiled(chain.report)) is None
