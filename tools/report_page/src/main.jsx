// Draws the views of the page into the places that the template left for them.
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { Tools } from "./tools.jsx";
import { Bars } from "./views/bars.jsx";
import { Curve } from "./views/curve.jsx";
import { Floor } from "./views/floor.jsx";
import { Graph } from "./views/graph.jsx";
import { Memory } from "./views/memory.jsx";
import { Package } from "./views/package.jsx";
import { Timeline } from "./views/timeline.jsx";

const VIEWS = {
  bars: Bars,
  curve: Curve,
  floor: Floor,
  graph: Graph,
  memory: Memory,
  package: Package,
  timeline: Timeline,
};

const { views } = JSON.parse(document.getElementById("data").textContent);
const tools = document.getElementById("tools");
if (tools) render(<Tools />, tools);

// One view after the other, so that the first ones are seen while the others are made.
const places = [...document.querySelectorAll("[data-view]")];
function drawNext() {
  const place = places.shift();
  if (!place) {
    document.documentElement.dataset.ready = "yes";
    return;
  }
  const { kind, data } = views[place.dataset.view];
  const Kind = VIEWS[kind];
  render(<Kind {...data} />, place);
  setTimeout(drawNext, 0);
}
drawNext();
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
