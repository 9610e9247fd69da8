"""The batch evaluator comes to the numbers of the passes, on models with all that is awkward."""

from __future__ import annotations

import pytest

VIEWS = """
views (float[4,16] x, float[4,16] arriving, int64[2] shape)
    => (float[16,4] y, float[64] z, float[4,16] flat, float[16,4] w_view, float[8,8] q)
<float[4,16] w = {0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,
                  0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7},
 int64[2] tall = {16,4}, int64[1] long = {64}, int64[2] square = {8,8}>
{
    a = Relu (x)
    r = Reshape (a, tall)
    y = Exp (r)
    v = Reshape (arriving, long)
    u = Reshape (v, square)
    z = Tanh (v)
    b = Sigmoid (a)
    flat = Flatten (b)
    w_view = Reshape (w, shape)
    d = Reshape (a, square)
    q = Add (d, u)
}
"""

CHAINS = """
chains (float[4,16] x, float[64] w_)
    => (float[16,4] y, float[64] long, float[8,8] square, float[4,16] z, float[2,32] end)
<int64[2] tall = {16,4}, int64[1] all = {64}, int64[2] even = {8,8}, int64[2] wide = {4,16},
 int64[2] pair = {2,32}>
{
    a = Reshape (x, tall)
    y = Relu (a)
    b = Reshape (a, all)
    long = Mul (b, w_)
    c = Identity (b)
    square = Reshape (c, even)
    d = Exp (square)
    e = Reshape (d, wide)
    f = Reshape (e, all)
    z = Reshape (f, wide)
    end = Reshape (y, pair)
}
"""

CHAIN_GROUPS = (
    ("Reshape_2", "Mul_3"),
    ("Identity_4", "Reshape_5", "Exp_6"),
    ("Reshape_7", "Reshape_8"),
)

BRANCHES = """
branches (bool c, float[32,32] x) => (float[32,32] y, float[32,32] z) {
    a = Relu (x)
    s = Sigmoid (x)
    b = If (c) <
        then_branch = one () => (float[32,32] t) { t = Exp (a) },
        else_branch = two () => (float[32,32] e) { e = Add (s, x) }
    >
    y = Tanh (b)
    z = Mul (a, s)
}
"""

ROW = ",".join(str(i % 7 / 4) for i in range(32))
BODIES = f"""
bodies (bool c, float[32] x) => (float[32] y, float[32] z) {{
    a = Relu (x)
    b = If (c) <
        then_branch = one () => (float[32] t) {{
            k = Constant <value_floats = [{ROW}]> ()
            t0 = Exp (a)
            t1 = Tanh (t0)
            t = Add (t1, k)
        }},
        else_branch = two () => (float[32] e) {{
            m = Constant <value_floats = [{ROW}]> ()
            e = Add (m, x)
        }}
    >
    y = Tanh (b)
    z = Mul (a, b)
}}
"""

OUTPUTS = """
outputs (float[16,16] x, float[16] passed)
    => (float[16,16] y, float[16] passed, float[2] stored, float[16] made, float[16,16] first)
<float[2] stored = {1, 2}, int64[1] length = {16}>
{
    made = ConstantOfShape (length)
    first = Relu (x)
    t = Exp (first)
    u = Mul (t, made)
    dead, used = Split <num_outputs = 2> (u)
    v = Concat <axis = 0> (used, used)
    y = Add (v, first)
}
"""

TIED = """
tied (float[32,32] x, float[32,32] w_, float[32] w_b) => (float[32,32] y)
{
    a = MatMul (x, w_)
    c = Relu (a)
    d = MatMul (c, w_)
    e = Add (d, w_b)
    f = MatMul (e, w_)
    g = Add (f, w_b)
    y = Add (g, c)
}
"""

STATES = """
states (float[1,2,7,16] past_0, float[1,2,7,16] past_1, float[1,4,32] cache_a, float[1,2,1,16] x,
        float[1,2,16,16] w_)
    => (float[1,2,8,16] present_0, float[1,2,8,16] present_1, float[1,4,32] cache_a_out,
        float[1,2,1,16] y)
{
    k = Relu (x)
    present_0 = Concat <axis = 2> (past_0, k)
    v = MatMul (k, w_)
    c = Concat <axis = 2> (v, past_1)
    present_1 = Identity (c)
    t = Transpose <perm = [0,1,3,2]> (present_0)
    s = MatMul (x, t)
    o = MatMul (s, present_1)
    m = ReduceMean <keepdims = 0> (cache_a)
    n = Tanh (o)
    a = Exp (cache_a)
    cache_a_out = Add (a, m)
    y = MatMul (n, w_)
}
"""

MASKS = """
masks (float[32,32] x, int64[32] mask, float[32,32] w_) => (float[32,32] y)
<float one = {1}>
{
    m = Cast <to = 1> (mask)
    i = Sub (one, m)
    k = Mul (m, i)
    a = MatMul (x, w_)
    b = Mul (a, m)
    c = MatMul (b, w_)
    d = Mul (c, i)
    e = MatMul (d, w_)
    f = Add (e, k)
    g = MatMul (f, w_)
    y = Mul (g, m)
}
"""

BERT = "bert{layers=2,hidden=64,heads=2,intermediate=128,vocab=100,seq=16}"
RESNET = "resnet50{image_size=32,shape_only=true}"

UNTYPED = """
untyped (float[32,32] x) => (float[32,32] y, float[32,32] z) {
    a = Relu (x)
    b = acme.Secret (a)
    c = acme.Other (b, x)
    z = Exp (a)
    y = acme.Last (c, z)
}
"""

MODELS = {
    "views": VIEWS,
    "branches": BRANCHES,
    "bodies": BODIES,
    "outputs": OUTPUTS,
    "tied": TIED,
    "untyped": UNTYPED,
    "states": STATES,
}

PACKAGES = {
    "any, relay": {"routing": "relay"},
    "any, strict": {"routing": "strict"},
    "any, routers": {"routing": "relay", "forwarding": "router", "switching": "cut_through"},
    "ends, relay": {"routing": "relay", "host_io": "ends"},
    "ends, strict": {"routing": "strict", "host_io": "ends", "switching": "cut_through"},
}


@pytest.mark.parametrize("options", PACKAGES.values(), ids=PACKAGES)
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_passes_on_awkward_models(make_road, name, options):
    road = make_road(MODELS[name], groups=(), **options)
    runs, broken, overflows = road.check(road.random_partitions(14))
    assert runs >= 4
    assert broken >= 1
    assert overflows == 0


@pytest.mark.parametrize("options", PACKAGES.values(), ids=PACKAGES)
@pytest.mark.parametrize("groups", [(), CHAIN_GROUPS], ids=["ops", "groups"])
def test_views_of_views_are_copied_where_they_leave(make_road, groups, options):
    road = make_road(CHAINS, groups=groups, **options)
    assert road.problem.copies is not None
    runs, _, _ = road.check(road.random_partitions(14))
    assert runs >= 4


@pytest.mark.parametrize("options", PACKAGES.values(), ids=PACKAGES)
def test_clones_take_time_by_what_is_read_of_them(make_road, options):
    # The mask group has three results, and chips read one, two or all of them.
    groups = (("Cast_0", "Sub_1", "Mul_2"), ("MatMul_3", "Mul_4"))
    road = make_road(MASKS, groups=groups, clones=True, **options)
    assert road.problem.clonable.any()
    runs, _, _ = road.check(road.random_partitions(14))
    assert runs >= 5


CLONED_TIMES = """node,kernel,op_type,inputs,type,seconds
Sub_1,,,,,3e-6
,MatMul_9,,,,5e-5
MatMul_5,,,,,4e-5
,Mul_4,,,,2e-5
,,Identity,32x32,float,7e-6
,,Mul,32x32;32,float,1e-6
"""

MEASURED = {
    "a view that takes time": (
        "views",
        "node,seconds\nReshape_1,2e-6\nFlatten_7,3e-6\nExp_2,0\nReshape_3,1e-6\n",
    ),
    "an op with bodies": ("branches", "node,seconds\nIf_2,5e-5\nTanh_3,1e-6\n"),
    "relays by their kind": (
        "tied",
        "op_type,inputs,type,seconds\nIdentity,32x32,float,9e-6\nMatMul,32x32;32x32,float,2e-5\n",
    ),
}


@pytest.mark.parametrize("options", PACKAGES.values(), ids=PACKAGES)
@pytest.mark.parametrize(("name", "times"), MEASURED.values(), ids=MEASURED)
def test_equals_the_passes_with_measured_times(make_road, name, times, options):
    road = make_road(MODELS[name], groups=(), times=times, **options)
    plain = make_road(MODELS[name], groups=(), **options)
    partitions = road.random_partitions(10)
    runs, _, _ = road.check(partitions)
    assert runs >= 3
    measured, computed = (r.evaluator.evaluate(partitions).period_s for r in (road, plain))
    assert (measured != computed).any()


@pytest.mark.parametrize("more", ["", "[[override]]\nchips = [1]\nspeed = 0.3\n"])
@pytest.mark.parametrize("options", PACKAGES.values(), ids=PACKAGES)
def test_copies_of_measured_ops_take_their_time_on_every_chip(make_road, options, more):
    groups = (("Cast_0", "Sub_1", "Mul_2"), ("MatMul_3", "Mul_4"))
    road = make_road(MASKS, groups=groups, clones=True, times=CLONED_TIMES, more=more, **options)
    assert road.problem.clonable.any()
    runs, _, _ = road.check(road.random_partitions(14))
    assert runs >= 5


@pytest.mark.parametrize("options", PACKAGES.values(), ids=PACKAGES)
@pytest.mark.parametrize("spec", [BERT, RESNET], ids=["bert", "resnet50"])
def test_equals_the_passes_on_networks(make_road, spec, options):
    road = make_road(spec, **options)
    runs, _, _ = road.check(road.random_partitions(4, seed=4))
    assert runs >= 1


def test_chips_that_differ(make_road):
    more = """
[[override]]
chips = [1]
speed = 0.5
[[override]]
chips = [2]
sram_mib = 0.1
[[override]]
chips = [3]
off = true
"""
    road = make_road(BERT, chips=6, sram_mib=0.2, switching="cut_through", more=more)
    runs, _, overflows = road.check(road.random_partitions(24)[16:])
    assert runs >= 1
    assert overflows >= 1


def test_fewer_chips_than_the_package_has(make_road):
    road = make_road(TIED, groups=(), chips=5, use=3, host_io="ends")
    runs, _, _ = road.check(road.random_partitions(10))
    assert road.evaluator.evaluate(road.random_partitions(1)).chip_busy_s.shape == (1, 3)
    assert runs >= 2


@pytest.mark.parametrize("sram_mib", [0.15, 0.06])
def test_weights_that_do_not_fit_are_streamed(make_road, sram_mib):
    more = """
[off_package_memory]
bandwidth_gb_per_s = 2
latency_us = 1
"""
    road = make_road(BERT, sram_mib=sram_mib, spill="stream", more=more)
    runs, _, overflows = road.check(road.random_partitions(8, seed=1))
    assert runs >= 4
    assert overflows == 0
    assert road.streams > 0


@pytest.mark.parametrize("sram_kib", [14, 4])
def test_states_are_not_streamed(make_road, sram_kib):
    more = """
[off_package_memory]
bandwidth_gb_per_s = 2
latency_us = 1
"""
    road = make_road(STATES, groups=(), sram_mib=sram_kib / 1024, spill="stream", more=more)
    assert {"past_0", "past_1", "cache_a"} <= {*road.problem.weight_names}
    runs, _, overflows = road.check(road.random_partitions(24, seed=1))
    assert runs >= 4
    assert overflows >= 1 or sram_kib == 14


@pytest.mark.parametrize("host_io", ["any", "ends"])
def test_equals_the_passes_where_chips_share_channels(make_road, host_io):
    road = make_road(BERT, host_io=host_io, root_gb_per_s=0.02)
    partitions = road.random_partitions(8, seed=2)
    runs, _, _ = road.check(partitions)
    assert runs >= 1
    found = road.evaluator.evaluate(partitions)
    here = found.kind == 0
    assert (found.shared_busy_s[here] > 0).all()
    assert (found.period_s[here] >= found.shared_busy_s[here] * (1 - 1e-12)).all()
    assert found.periods_of(1000)[here] == pytest.approx(1000 * found.shared_busy_s[here])
    assert not make_road(BERT, host_io=host_io).evaluator.evaluate(partitions).shared_busy_s.size


def test_a_clone_of_too_many_results_is_refused(make_road):
    results = "".join(f"    o{i} = Add (m, w_)\n" for i in range(11))
    readers = "".join(f"    y{i + 1} = Mul (y{i}, o{i})\n" for i in range(11))
    text = f"""
wide (float[32,32] y0, int64[32] mask, float[32] w_) => (float[32,32] y11) {{
    m = Cast <to = 1> (mask)
{results}{readers}}}
"""
    group = ("Cast_0", *(f"Add_{i + 1}" for i in range(11)))
    with pytest.raises(ValueError, match="at most 10 results"):
        make_road(text, groups=(group,), clones=True)


def test_verdicts_do_not_depend_on_company(make_road):
    road = make_road(MODELS["branches"])
    partitions = road.random_partitions(70)
    together = road.evaluator.evaluate(partitions)
    for row in (0, 33, 69):
        alone = road.evaluator.evaluate(partitions[row : row + 1])
        assert alone.kind[0] == together.kind[row]
        assert alone.period_s[0] == together.period_s[row]
        assert (alone.high_water_bytes[0] == together.high_water_bytes[row]).all()


def test_no_partitions_have_no_verdicts(make_road):
    road = make_road(MODELS["tied"])
    assert len(road.evaluator.evaluate(road.random_partitions(0)).kind) == 0


def test_partitions_of_another_problem_are_refused(make_road):
    road = make_road(MODELS["tied"])
    with pytest.raises(ValueError, match="partitions are"):
        road.evaluator.evaluate(road.random_partitions(2)[:, 1:])


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("views", '"Exp", "Sigmoid", "Add"'),
        ("bodies", '"Exp", "Tanh"'),
        ("bodies", '"Relu", "Exp", "Mul"'),
        ("branches", '"Add"'),
        ("untyped", '"acme::Other", "Exp"'),
    ],
)
def test_equals_the_passes_where_the_host_runs_ops(make_road, name, ops):
    more = "[[override]]\nchips = [1]\nspeed = 2.0\n"
    road = make_road(MODELS[name], chip=f"unsupported_ops = [{ops}]", more=more)
    runs, _, overflows = road.check(road.random_partitions(14))
    assert runs >= 3
    assert overflows == 0
