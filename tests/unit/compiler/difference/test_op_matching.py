"""Ops of one model found in another: by name, by structure, or not at all."""

from __future__ import annotations

import random

from mcm_compiler.difference.op_matching import PlacedOps, match_ops


def chain(*ops: str) -> PlacedOps:
    """Ops `name:Type` one after the other."""
    names, types = zip(*(op.split(":") for op in ops), strict=True)
    reads = tuple((i - 1,) if i else () for i in range(len(ops)))
    return PlacedOps(names, types, ((),) * len(ops), reads)


def test_ops_of_one_name_and_type_are_the_same():
    first, second = chain("a:Conv", "b:Relu", "c:Gemm"), chain("a:Conv", "b:Sigmoid", "c:Gemm")
    found = match_ops(first, second)
    assert found.by_name == ((0, 0), (2, 2))
    assert (found.only_first, found.only_second) == ((1,), (1,))


def test_new_names_change_nothing():
    first = chain("a:Conv", "b:Relu", "c:Conv", "d:Relu")
    second = chain("v:Conv", "w:Relu", "x:Conv", "y:Relu")
    found = match_ops(first, second)
    assert found.by_structure == ((0, 0), (1, 1), (2, 2), (3, 3))
    assert found.by_name == found.only_first == found.only_second == ()


def test_a_changed_layer_amid_new_names_is_the_only_one_without_a_partner():
    kinds = [f"k{i % 5}" for i in range(40)]
    first = chain(*(f"a{i}:{kind}" for i, kind in enumerate(kinds)))
    changed = [*kinds[:20], "other", "another", *kinds[21:]]
    second = chain(*(f"b{i}:{kind}" for i, kind in enumerate(changed)))
    found = match_ops(first, second)
    assert found.only_first == (20,)
    assert found.only_second == (20, 21)
    assert set(found.pairs) == {(i, i if i < 20 else i + 1) for i in range(40) if i != 20}


def test_branches_keep_their_order():
    names = ("in", "l1", "r1", "l2", "r2", "out")
    types = ("Relu", "Conv", "Pool", "Relu", "Relu", "Add")
    reads = ((), (0,), (0,), (1,), (2,), (3, 4))
    first = PlacedOps(names, types, ((),) * 6, reads)
    second = PlacedOps(tuple(f"{n}'" for n in names), types, ((),) * 6, reads)
    assert match_ops(first, second).by_structure == tuple((i, i) for i in range(6))


def test_nothing_in_common():
    found = match_ops(chain("a:Conv", "b:Relu"), chain("x:Gemm"))
    assert found.pairs == ()
    assert (found.only_first, found.only_second) == ((0, 1), (0,))


def test_pairs_are_one_to_one_and_of_one_type():
    drawn = random.Random(3)
    for _ in range(50):
        first, second = (_random(drawn) for _ in range(2))
        found = match_ops(first, second)
        for side, ops, left in ((0, first, found.only_first), (1, second, found.only_second)):
            seen = [pair[side] for pair in found.pairs] + list(left)
            assert sorted(seen) == list(range(len(ops.names)))
        assert all(first.op_types[i] == second.op_types[j] for i, j in found.pairs)


def _random(drawn: random.Random) -> PlacedOps:
    count = drawn.randrange(1, 30)
    names = tuple(drawn.choice(["", "x", f"n{i}", f"m{i}"]) for i in range(count))
    types = tuple(drawn.choice("ABC") for _ in range(count))
    reads = tuple(tuple(sorted(drawn.sample(range(i), min(i, 2)))) for i in range(count))
    return PlacedOps(names, types, ((),) * count, reads)
