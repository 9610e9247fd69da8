"""The page of a compile: written by the verbs, looked at in a browser."""

from __future__ import annotations

import json
import re
import shutil

import onnx
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.page.contents import Answer, Page, Section, Table, View, page_bytes
from tests.generators.browser import Watched, browser
from tests.generators.page_packages import npm_folder

HOSTILE = "</script><img src=x onerror=alert(1)>&'\""
PAGES = ["net", "bert", "mesh", "box", "hand"]
NET = """<ir_version: 10, opset_import: ["": 21]>
net (float[1, 64] x) => (float[1, 64] y)
<float[64, 64] w, float[64, 64] v> {
  h = MatMul (x, w)
  r = Relu (h)
  k = MatMul (r, v)
  y = Add (k, r)
}"""


def run(*arguments):
    done = CliRunner().invoke(cli, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done


def page_by_hand():
    """Views that need long compiles, with names that are hostile."""
    plan = {
        "name": "chip 0", "rows": 2, "cols": 2, "stages": ["in", HOSTILE],
        "units": [[0, 0, 0, 1], [0, 1, 1, 1], [0, -1, 2, 0]], "links": [[0, 7], [3, 1]],
    }  # fmt: skip
    curve = {"x": [1.0, 10.0, 50.0], "y": [3e-3, 2e-3, 1.5e-3], "xName": "tried",
             "yName": "best", "bound": 1e-3}  # fmt: skip
    bars = [{"name": HOSTILE, "seconds": 1e-3, "text": "1.00 ms", "kind": "result"}]
    table = Table((HOSTILE, "n"), ((HOSTILE, "1"),), frozenset({1}), HOSTILE)
    return Page(
        HOSTILE,
        (HOSTILE,),
        (Answer(HOSTILE, HOSTILE, (HOSTILE,), "warn", "one"),),
        (
            Section("one", HOSTILE, (), View("floor", {"plans": [plan, plan]}, HOSTILE), (table,)),
            Section("two", "Search", (), View("curve", curve, "Curve")),
            Section(
                "three", "Bars", (), View("bars", {"bars": bars}, "Bars"), (table,), folded=True
            ),
        ),
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Compiled models by name, each with its page beside it."""
    root = tmp_path_factory.mktemp("pages")
    model = onnx.parser.parse_model(NET)
    for name in ("w", "v"):
        tensor = onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [64, 64], [0.01] * 4096)
        model.graph.initializer.append(tensor)
    for node, name in zip(model.graph.node, ("a", HOSTILE, "c", "d"), strict=True):
        node.name = name
    onnx.save(model, root / "net.onnx")
    run("compile", root / "net.onnx", "--target", "mcm4", "-o", root / "net", "--html")
    one = ("--replicas", 1, "-O0", "--html", "-o")
    run("compile", "zoo:bert-tiny", "--target", "mcm4", *one, root / "bert")
    run("compile", "zoo:bert-tiny", "--target", "acme-mesh16", *one, root / "mesh")
    pinned = ("--placer", "expert", "--pin", "*layer.1*=gpu:0", "--target", "box-2gpu")
    run("place", "zoo:bert-tiny", *pinned, "--html", "-o", root / "box")
    (root / "hand.html").write_bytes(page_bytes(page_by_hand()))
    build_shop(root / "shop")
    return root


def build_shop(root):
    """A project with a model that compiles, one that is known to fail, and a hostile one."""
    models = root / "models"
    models.mkdir(parents=True)
    shutil.copy(root.parent / "net.onnx", models / "net.onnx")
    for name in ("known", HOSTILE.replace("/", "")):
        (models / f"{name}.onnx").write_text("no model")
    (root / "mcmc.toml").write_text(
        'targets = ["mcm4", "mcm16"]\nlevel = 0\nhtml = true\n'
        '[[models]]\nfiles = "models/*.onnx"\nexclude = "models/known.onnx"\n'
        '[[models]]\nfiles = "models/known.onnx"\n'
        'expected_failure = { code = "MCM-I003", reason = "known" }\n'
    )
    done = CliRunner().invoke(cli, ["build", "--jobs", "1", str(root / "mcmc.toml")])
    assert done.exit_code == 1, done.output


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_page_is_drawn_without_a_complaint(folders, chromium, name, colours):
    watched = Watched(chromium, color_scheme=colours)
    page = watched.open(folders / f"{name}.html")
    views = page.locator("[data-view]").all()
    assert len(views) >= 3
    assert all(view.bounding_box()["height"] > 20 for view in views)
    assert watched.complaints == []


def test_a_page_says_what_the_report_says(folders, chromium):
    report = json.loads((folders / "bert" / "report.json").read_text())
    page = Watched(chromium).open(folders / "bert.html")
    answers = page.locator(".answer").all_inner_texts()
    assert any(f"chip {report['bottleneck']['chip']}" in text for text in answers)
    assert any(f"{report['throughput_per_s']:,.0f} inferences/s" in text for text in answers)
    chips = page.locator("[data-chip]")
    assert chips.count() == report["target"]["chips"]
    for row in report["chips"]:
        label = page.locator(f"[data-chip='{row['chip']}']").get_attribute("aria-label")
        assert f"busy {100 * row['utilisation']:.1f} %" in label


def test_chips_are_chosen_by_mouse_and_by_keyboard(folders, chromium):
    page = Watched(chromium).open(folders / "bert.html")
    page.locator("[data-chip='1']").click()
    title = page.locator(".package .details h3")
    assert title.inner_text() == "chip 1"
    page.keyboard.press("ArrowRight")
    assert title.inner_text() == "chip 2"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert title.inner_text() == "chip 0"


def test_a_mesh_is_drawn_as_one_by_a_page_that_knows_no_meshes(folders, chromium):
    page = Watched(chromium).open(folders / "mesh.html")
    assert page.locator(".package svg.grid").count() == 1
    at = [page.locator(f"[data-chip='{i}']").get_attribute("transform") for i in (0, 1, 4, 5)]
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = (map(float, re.findall(r"[\d.]+", t)) for t in at)
    assert y0 == y1 < y2 == y3
    assert x0 == x2 < x1 == x3


def test_ops_are_found_by_name_those_inside_of_kernels_too(folders, chromium):
    page = Watched(chromium).open(folders / "bert.html")
    manifest = json.loads((folders / "bert" / "manifest.json").read_text())
    wanted = manifest["chips"][-1]["order"][0]
    page.locator(".graph input[type=search]").fill(wanted)
    hit = page.locator(".graph .found button").first
    assert wanted in hit.inner_text()
    hit.click()
    chosen = page.locator(".graph .details")
    assert f"chip {manifest['chips'][-1]['chip']}" in chosen.inner_text()


def test_hostile_names_are_shown_and_do_nothing(folders, chromium):
    watched = Watched(chromium)
    page = watched.open(folders / "net.html")
    page.locator(".graph input[type=search]").fill("onerror")
    hit = page.locator(".graph .found button").first
    assert HOSTILE in hit.inner_text()
    hit.click()
    assert page.locator("img").count() == 0
    by_hand = watched.open(folders / "hand.html")
    assert by_hand.locator("h1").inner_text() == HOSTILE
    assert by_hand.locator(".stages li").nth(1).inner_text().strip() == HOSTILE
    assert by_hand.locator("img").count() == 0
    assert watched.complaints == []


def test_the_index_of_a_build_leads_to_its_pages(folders, chromium):
    watched = Watched(chromium)
    page = watched.open(folders / "shop" / "build" / "mcmc" / "index.html")
    assert page.locator(".answer .figure").first.inner_text() == "no"
    rows = page.locator("#cells tbody tr")
    assert rows.count() == 6
    hostile = rows.filter(has_text=HOSTILE.replace("/", ""))
    assert hostile.count() == 2
    assert "failed: MCM-I003" in hostile.first.inner_text()
    assert page.locator("img").count() == 0
    assert page.locator("#expected caption").all_inner_texts() == ["known/mcm4", "known/mcm16"]
    page.get_by_role("link", name="net/mcm16").click()
    page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    assert page.locator("h1").inner_text() == "net.onnx on mcm16"
    assert watched.complaints == []


def colours_of(canvas):
    """How many colours there are in a canvas."""
    return canvas.evaluate(
        "(c) => new Set(new Uint32Array(c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data.buffer)).size"
    )


def test_timeline_and_memory_move_by_keyboard_and_follow_the_map(folders, chromium):
    page = Watched(chromium).open(folders / "bert.html")
    for view in ("timeline", "memory"):
        canvas = page.locator(f".{view} canvas")
        canvas.scroll_into_view_if_needed()
        canvas.focus()
        page.wait_for_timeout(200)
        assert colours_of(canvas) > 5
        whole = canvas.evaluate("(c) => c.toDataURL()")
        page.keyboard.press("+")
        page.wait_for_timeout(200)
        assert canvas.evaluate("(c) => c.toDataURL()") != whole
        page.keyboard.press("0")
        page.wait_for_timeout(200)
        assert canvas.evaluate("(c) => c.toDataURL()") == whole
    page.locator("[data-chip='2']").click()
    assert page.locator(".memory select").input_value() == "2"


def test_a_print_shows_what_is_decided_by_and_says_what_it_leaves_out(folders, chromium):
    page = Watched(chromium).open(folders / "bert.html")
    assert not page.locator("details.tables table").first.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("details.tables table").first.is_visible()
    for shown in ("#package", "#bottleneck", "#bound", "#memory"):
        assert page.locator(shown).is_visible()
    for left_out in ("#tools", "#timeline", "#graph", "#files"):
        assert not page.locator(left_out).is_visible()
    note = page.evaluate("getComputedStyle(document.querySelector('footer'), '::before').content")
    assert "On the screen only: timeline, graph" in note


def test_a_print_has_at_most_four_pages(folders, chromium):
    page = Watched(chromium).open(folders / "bert.html")
    assert len(re.findall(rb"/Type ?/Page\b", page.pdf(format="A4"))) <= 4


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_nothing_is_cut_at_any_width(folders, chromium, width):
    page = Watched(chromium).open(folders / "bert.html")
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for part in page.locator(".scroll, .drawing").all():
        assert part.evaluate("(e) => getComputedStyle(e).overflowX") == "auto"


def test_the_first_screen_is_copied_as_the_report_begins(folders, chromium):
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((folders / "bert.html").as_uri())
    page.get_by_role("button", name="Copy as Markdown").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()").replace("\\", "").splitlines()
    context.close()
    text = (folders / "bert" / "report.md").read_text().replace("\\", "")
    assert "| to deploy |" in copied.pop()
    assert copied == text.splitlines()[: len(copied)]
    assert len(copied) >= 11


def test_addresses_lead_to_sections_and_chips(folders, chromium):
    page = Watched(chromium).page
    page.goto(f"{(folders / 'bert.html').as_uri()}#chip-2")
    page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    title = page.locator(".package .details h3")
    assert title.inner_text() == "chip 2"
    page.locator(".memory select").wait_for()
    assert page.locator(".memory select").input_value() == "2"
    page.locator("[data-chip='1']").click()
    assert page.url.endswith("#chip-1")
    page.get_by_role("link", name="Link to Timeline").focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("#timeline")


VIEWER = """<script>
addEventListener("message", ({ data, source }) => {
  if (data === "PING") source.postMessage("PONG", "*");
  else document.title = new TextDecoder().decode(data.perfetto.buffer);
});
</script>"""


def test_the_timeline_is_handed_to_perfetto_or_saved(folders, chromium):
    page = Watched(chromium).open(folders / "bert.html")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save trace").click()
    events = json.loads(saved.value.path().read_text())["traceEvents"]
    page.context.route(
        "https://ui.perfetto.dev/**",
        lambda route: route.fulfill(body=VIEWER, content_type="text/html"),
    )
    with page.expect_popup() as popup:
        page.get_by_role("button", name="Open in Perfetto").click()
    popup.value.wait_for_function("document.title.length > 9")
    assert json.loads(popup.value.title())["traceEvents"] == events
    slices = [event for event in events if event["ph"] == "X"]
    assert {"name", "ts", "dur", "tid"} <= slices[0].keys()
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert "chip 0" in names


def test_the_switch_changes_the_colours(folders, chromium):
    page = Watched(chromium, color_scheme="light").open(folders / "net.html")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    for _ in range(2):
        page.locator("#tools .theme").click()
    assert page.evaluate(colour) != light


@pytest.mark.parametrize("name", [*PAGES, "shop/build/mcmc/index"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_page_has_no_serious_fault_of_accessibility(folders, chromium, name, colours):
    axe = (npm_folder() / "node_modules" / "axe-core" / "axe.min.js").read_text()
    # The page runs no script but its own; the browser puts this one past its policy.
    watched = Watched(chromium, color_scheme=colours, bypass_csp=True)
    page = watched.open(folders / f"{name}.html")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(axe)
    faults = page.evaluate("axe.run().then((found) => found.violations)")
    serious = [
        (fault["id"], [node["html"][:200] for node in fault["nodes"]][:3])
        for fault in faults
        if fault["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_the_verb_report_writes_the_same_page_and_never_over_another_file(folders, tmp_path):
    path = tmp_path / "page.html"
    told = run("report", folders / "bert", "--html", path)
    assert f"wrote {path}" in told.output
    assert path.read_bytes() == (folders / "bert.html").read_bytes()
    again = CliRunner().invoke(cli, ["report", str(folders / "bert"), "--html", str(path)])
    assert again.exit_code == 1
    assert "MCM-U021" in again.output
    run("report", folders / "bert", "--html", path, "--force")


def test_a_report_by_itself_has_a_page_without_what_only_the_folder_knows(folders, tmp_path):
    run("report", folders / "bert" / "report.json", "--html", tmp_path / "a.html")
    alone = tmp_path / "report.json"
    alone.write_bytes((folders / "bert" / "report.json").read_bytes())
    run("report", alone, "--html", tmp_path / "b.html")
    whole, part = ((tmp_path / name).read_text() for name in ("a.html", "b.html"))
    assert 'id="graph"' in whole
    assert 'id="graph"' not in part
    assert 'id="package"' in part


def test_what_is_no_output_is_told_and_writes_nothing(folders, tmp_path):
    newer = tmp_path / "report.json"
    report = json.loads((folders / "bert" / "report.json").read_text())
    newer.write_text(json.dumps({**report, "schema_version": report["schema_version"] + 1}))
    for source in (tmp_path, newer):
        done = CliRunner().invoke(cli, ["report", str(source), "--html", str(tmp_path / "x.html")])
        assert done.exit_code == 1
        assert re.search(r"MCM-A00[45]", done.output)
    assert not (tmp_path / "x.html").exists()


def test_many_models_have_a_page_each(folders, tmp_path):
    run("compile", folders / "net.onnx", "zoo:bert-tiny", "--target", "mcm4", "-O0", "--html", "-o",
        tmp_path / "out")  # fmt: skip
    pages = sorted(path.name for path in (tmp_path / "out").glob("*.html"))
    assert len(pages) == 2
    done = CliRunner().invoke(
        cli, ["compile", str(folders / "net.onnx"), "zoo:bert-tiny", "--target", "mcm4", "--html",
              "-o", str(tmp_path / "out")],
    )  # fmt: skip
    assert done.exit_code == 1
    assert "MCM-U021" in done.output
