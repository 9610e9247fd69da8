// The graph of a model: boxes coloured by where they run or how long they take. Boxes too small to
// be seen are pixels of an image, so that 100,000 of them move as easily as ten.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { inkOn, pixel, placeColour, shareColour, styled } from "../colours.js";
import { secondsText } from "../shared.js";
import { fitting, makeStage, zoomIdentity } from "../stage.js";
import { unpackAll } from "../unpack.js";

const MOST_EDGES = 3000;
const EDGES_AT_ONCE = 100;
const FOUND = 12;
const SHADES = 64;

export function Graph(packed) {
  const [data, setData] = useState(null);
  useEffect(() => {
    unpackAll(packed).then(setData);
  }, []);
  return data ? <Drawn data={data} /> : <p class="note">The graph is being unpacked.</p>;
}

function Drawn({ data }) {
  const canvas = useRef(null);
  const stage = useRef(null);
  const look = useRef(null);
  const [mode, setMode] = useState("place");
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(-1);
  const [hovered, setHovered] = useState(null);
  const membersOf = useMemo(() => {
    const of = new Map();
    data.fused?.forEach((node, i) => of.set(node, data.members[i].split("\n")));
    return of;
  }, [data]);
  const lower = useMemo(() => data.names.map((name, i) => {
    const members = membersOf.get(i);
    return (members ? `${name}\n${members.join("\n")}` : name).toLowerCase();
  }), [data]);
  const found = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return null;
    const hits = [];
    for (let i = 0; i < lower.length; i += 1) if (lower[i].includes(wanted)) hits.push(i);
    return hits;
  }, [text, lower]);
  const shades = useMemo(() => shadesOf(data, mode), [data, mode]);
  look.current = { data, shades, chosen, found: found && new Set(found), hovered: hovered?.node ?? -1 };

  useEffect(() => {
    const element = canvas.current;
    const made = makeStage(element, {
      draw: painter(data, look),
      limits: [0.001, 4],
      onHover(x, y) {
        const node = x === undefined ? -1 : nodeAt(data, made.transform().invert([x, y]));
        setHovered(node < 0 ? null : { node, x, y });
      },
      onClick(x, y) {
        setChosen(nodeAt(data, made.transform().invert([x, y])));
      },
      onKey(key) {
        if (key !== "0") return false;
        fit();
        return true;
      },
    });
    const fit = () => {
      const whole = fitting([data.width, data.height], made.size());
      made.limit(whole.k / 2, 4);
      made.moveTo(whole);
    };
    element.addEventListener("fit", fit);
    stage.current = { ...made, fit };
    return () => made.end();
  }, [data]);
  useEffect(() => stage.current?.redraw(), [shades, chosen, found, hovered]);

  const go = (node) => {
    setChosen(node);
    const [width, height] = stage.current.size();
    const k = Math.max(stage.current.transform().k, 0.8);
    stage.current.moveTo(zoomIdentity.translate(width / 2 - k * data.x[node], height / 2 - k * data.y[node]).scale(k));
  };
  return (
    <div class="graph">
      <div class="controls">
        <label>
          Search <input type="search" value={text} onInput={(e) => setText(e.target.value)} placeholder="name of an op" onKeyDown={(e) => e.key === "Enter" && found?.length && go(found[0])} />
        </label>
        <fieldset>
          <legend>Colour by</legend>
          {[["place", data.place], ["time", "time"]].map(([value, word]) => (
            <label><input type="radio" name="graph-mode" checked={mode === value} onChange={() => setMode(value)} /> {word}</label>
          ))}
        </fieldset>
        <div class="buttons">
          <button type="button" aria-label="Zoom in" onClick={() => stage.current.zoomBy(1.5)}>+</button>
          <button type="button" aria-label="Zoom out" onClick={() => stage.current.zoomBy(1 / 1.5)}>−</button>
          <button type="button" onClick={() => stage.current.fit()}>Fit</button>
        </div>
      </div>
      {found ? (
        <div class="found" aria-live="polite">
          <p>{found.length ? `${found.length.toLocaleString("en")} found${found.length > FOUND ? `, the first ${FOUND}:` : ":"}` : "nothing found"}</p>
          <ul>{found.slice(0, FOUND).map((node) => (
            <li><button type="button" onClick={() => go(node)}>{nameOfMatch(data, membersOf, node, text)}</button></li>
          ))}</ul>
        </div>
      ) : null}
      <div class="canvas">
        <canvas ref={canvas} tabindex={0} role="img" aria-label={`Graph of ${data.nodes.toLocaleString("en")} boxes. Arrow keys move it, plus and minus zoom, 0 shows it whole; the search above leads to boxes by name.`} />
        {hovered ? <Tip data={data} membersOf={membersOf} {...hovered} width={stage.current?.size()[0] ?? 0} /> : null}
      </div>
      <Key data={data} mode={mode} />
      {chosen >= 0 ? <Chosen data={data} membersOf={membersOf} node={chosen} go={go} close={() => setChosen(-1)} /> : null}
    </div>
  );
}

/** Shade of each box, and the colours of the shades. */
function shadesOf(data, mode) {
  const of = new Uint16Array(data.nodes);
  let colours;
  if (mode === "place") {
    const count = data.placeNames.length;
    colours = data.placeNames.map((_, i) => placeColour(i, count));
    for (let i = 0; i < data.nodes; i += 1) of[i] = data.places[i];
  } else {
    const most = longest(data);
    colours = Array.from({ length: SHADES }, (_, i) => shareColour(i / (SHADES - 1)));
    // By the root, as most kernels are short beside the longest.
    for (let i = 0; i < data.nodes; i += 1) of[i] = most ? Math.round(Math.sqrt(data.seconds[i] / most) * (SHADES - 1)) : 0;
  }
  return { of, colours, inks: colours.map(inkOn), pixels: Uint32Array.from(colours, pixel) };
}

const longest = (data) => data.seconds.reduce((most, s) => Math.max(most, s), 0);

/** A function that draws the graph as `look` says. */
function painter(data, look) {
  const { x, y, from, to, nodes } = data;
  const [boxWidth, boxHeight] = data.box;
  const offscreen = document.createElement("canvas");
  let image = null;
  return (context, t, width, height) => {
    const { shades, chosen, found, hovered } = look.current;
    const { k } = t;
    const [x0, y0] = t.invert([-boxWidth * k, -boxHeight * k]);
    const [x1, y1] = t.invert([width + boxWidth * k, height + boxHeight * k]);
    drawEdges(context, data, t, [x0, y0, x1, y1], chosen);
    if (boxHeight * k < 3.5) {
      drawPixels(context, t);
    } else {
      const labels = boxHeight * k > 13;
      const size = Math.min(12, 0.55 * boxHeight * k);
      context.font = `${size}px system-ui, sans-serif`;
      context.textBaseline = "middle";
      for (let i = 0; i < nodes; i += 1) {
        if (x[i] < x0 || x[i] > x1 || y[i] < y0 || y[i] > y1) continue;
        const shade = shades.of[i];
        const [left, top] = [t.applyX(x[i] - boxWidth / 2), t.applyY(y[i] - boxHeight / 2)];
        context.globalAlpha = found && !found.has(i) ? 0.22 : 1;
        context.fillStyle = shades.colours[shade];
        roundRect(context, left, top, boxWidth * k, boxHeight * k, Math.min(5 * k, 5));
        if (labels) {
          context.fillStyle = shades.inks[shade];
          const room = Math.floor((boxWidth * k - 12) / (size * 0.6));
          context.fillText(shortened(data.names[i], room), left + 6, top + (boxHeight * k) / 2);
        }
      }
      context.globalAlpha = 1;
    }
    for (const node of [hovered, chosen]) if (node >= 0) outline(context, t, node);
  };

  function outline(context, t, node) {
    const [w, h] = [Math.max(boxWidth * t.k, 6), Math.max(boxHeight * t.k, 6)];
    context.strokeStyle = styled("--accent");
    context.lineWidth = 2.5;
    context.strokeRect(t.applyX(x[node]) - w / 2 - 2, t.applyY(y[node]) - h / 2 - 2, w + 4, h + 4);
  }

  function drawPixels(context, t) {
    const { shades, found } = look.current;
    const [w, h] = [context.canvas.width, context.canvas.height];
    if (!image || image.width !== w || image.height !== h) {
      image = new ImageData(w, h);
      [offscreen.width, offscreen.height] = [w, h];
    }
    const pixels = new Uint32Array(image.data.buffer);
    const shadeOf = shades.of;
    const colours = shades.pixels;
    pixels.fill(0);
    const ratio = devicePixelRatio || 1;
    const k = t.k * ratio;
    const wide = Math.max(1, Math.round(boxWidth * k));
    const high = Math.max(1, Math.round(boxHeight * k));
    const [tx, ty] = [t.x * ratio, t.y * ratio];
    for (let i = 0; i < nodes; i += 1) {
      const left = Math.round(x[i] * k + tx - wide / 2);
      const top = Math.round(y[i] * k + ty - high / 2);
      if (left + wide <= 0 || left >= w || top + high <= 0 || top >= h) continue;
      let colour = colours[shadeOf[i]];
      if (found !== null && !found.has(i)) colour = (colour & 0xffffff) | 0x30000000;
      const a = left < 0 ? 0 : left;
      const b = left + wide > w ? w : left + wide;
      const last = top + high > h ? h : top + high;
      for (let row = top < 0 ? 0 : top; row < last; row += 1) {
        for (let p = row * w + a, end = row * w + b; p < end; p += 1) pixels[p] = colour;
      }
    }
    offscreen.getContext("2d").putImageData(image, 0, 0);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(offscreen, 0, 0);
    context.restore();
  }
}

/** Edges that are seen, as curves from the bottom of a box to the top of the next. */
function drawEdges(context, { x, y, from, to, box }, t, [x0, y0, x1, y1], chosen) {
  const half = box[1] / 2;
  const far = t.k * box[1] < 3.5;
  const edge = (e) => {
    const ax = t.applyX(x[from[e]]);
    const ay = t.applyY(y[from[e]] + half);
    const bx = t.applyX(x[to[e]]);
    const by = t.applyY(y[to[e]] - half);
    if (far) {
      context.moveTo(ax, ay);
      context.lineTo(bx, by);
      return;
    }
    const bend = Math.min(Math.max(Math.abs(by - ay) / 2, 10 * t.k), 70 * t.k);
    context.moveTo(ax, ay);
    context.bezierCurveTo(ax, ay + bend, bx, by - bend, bx, by);
  };
  context.lineWidth = Math.min(1.2, Math.max(0.5, t.k));
  context.strokeStyle = styled("--edge");
  context.beginPath();
  let drawn = 0;
  // Where many are seen every so manieth is drawn: enough to tell where data go. A path of many
  // lines takes longer than many paths of few.
  const each = far ? Math.ceil(from.length / MOST_EDGES) : 1;
  for (let e = 0; e < from.length && drawn < MOST_EDGES; e += each) {
    const a = from[e];
    const b = to[e];
    if (Math.max(x[a], x[b]) < x0 || Math.min(x[a], x[b]) > x1 || Math.max(y[a], y[b]) < y0 || Math.min(y[a], y[b]) > y1) continue;
    edge(e);
    drawn += 1;
    if (drawn % EDGES_AT_ONCE === 0) {
      context.stroke();
      context.beginPath();
    }
  }
  context.stroke();
  if (chosen < 0) return;
  context.strokeStyle = styled("--accent");
  context.lineWidth = 2;
  context.beginPath();
  for (let e = 0; e < from.length; e += 1) if (from[e] === chosen || to[e] === chosen) edge(e);
  context.stroke();
}

function roundRect(context, left, top, width, height, radius) {
  context.beginPath();
  context.roundRect(left, top, width, height, radius);
  context.fill();
}

const shortened = (text, room) => (text.length <= room ? text : `…${text.slice(text.length - Math.max(room - 1, 1))}`);

function nodeAt({ x, y, nodes, box }, [px, py]) {
  for (let i = 0; i < nodes; i += 1) {
    if (Math.abs(px - x[i]) <= box[0] / 2 && Math.abs(py - y[i]) <= box[1] / 2) return i;
  }
  return -1;
}

function nameOfMatch(data, membersOf, node, text) {
  const wanted = text.trim().toLowerCase();
  if (data.names[node].toLowerCase().includes(wanted)) return data.names[node];
  const member = membersOf.get(node)?.find((name) => name.toLowerCase().includes(wanted));
  return member ? `${member} in ${data.names[node]}` : data.names[node];
}

function Tip({ data, membersOf, node, x, y, width }) {
  const members = membersOf.get(node);
  return (
    <div class="tip" style={x > width / 2 ? { right: `${width - x + 12}px`, top: `${y + 12}px` } : { left: `${x + 12}px`, top: `${y + 12}px` }}>
      <b>{data.names[node]}</b>
      <span>{data.kinds[data.kind[node]]}{members ? `, ${members.length} fused ops` : ""}</span>
      <span>{data.placeNames[data.places[node]]}, {secondsText(data.seconds[node])}</span>
    </div>
  );
}

function Key({ data, mode }) {
  if (mode === "time") {
    const steps = Array.from({ length: 24 }, (_, i) => i / 23);
    return (
      <div class="legend">
        <span>0 s</span>
        <svg viewBox="0 0 144 12" width="144" height="12" aria-hidden="true">
          {steps.map((t, i) => <rect x={6 * i} y="0" width="6.5" height="12" fill={shareColour(t)} />)}
        </svg>
        <span>{secondsText(longest(data))}</span>
      </div>
    );
  }
  const used = [...new Set(data.places)].sort((a, b) => a - b);
  const count = data.placeNames.length;
  return (
    <ul class="legend places">
      {used.map((place) => <li><i style={{ background: placeColour(place, count) }} />{data.placeNames[place]}</li>)}
    </ul>
  );
}

function Chosen({ data, membersOf, node, go, close }) {
  const [reads, readers] = [[], []];
  for (let e = 0; e < data.from.length; e += 1) {
    if (data.to[e] === node) reads.push(data.from[e]);
    if (data.from[e] === node) readers.push(data.to[e]);
  }
  const members = membersOf.get(node);
  const list = (title, nodes) => nodes.length ? (
    <div>
      <dt>{title}</dt>
      <dd>{[...new Set(nodes)].slice(0, FOUND).map((other) => <button type="button" onClick={() => go(other)}>{data.names[other]}</button>)}</dd>
    </div>
  ) : null;
  return (
    <aside class="details wide" aria-label="Chosen op" aria-live="polite">
      <button type="button" class="close" aria-label="Close" onClick={close}>×</button>
      <h3>{data.names[node]}</h3>
      <dl>
        <div><dt>type</dt><dd>{data.kinds[data.kind[node]]}</dd></div>
        <div><dt>runs on</dt><dd>{data.placeNames[data.places[node]]}</dd></div>
        <div><dt>takes</dt><dd>{secondsText(data.seconds[node])}</dd></div>
        {members ? <div><dt>ops</dt><dd>{members.slice(0, FOUND).join(", ")}{members.length > FOUND ? ` and ${members.length - FOUND} more` : ""}</dd></div> : null}
        {list("reads", reads)}
        {list("read by", readers)}
      </dl>
    </aside>
  );
}
