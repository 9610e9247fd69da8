// What each chip and each link does when: a row each, slices in the colour of their inference.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { inkOn, placeColour, styled } from "../colours.js";
import { openTrace, saveTrace, traceOf } from "../perfetto.js";
import { secondsText } from "../shared.js";
import { makeStage, zoomIdentity } from "../stage.js";
import { unpackAll } from "../unpack.js";

const LEFT = 118;
const TOP = 24;
const COLOURS = Array.from({ length: 6 }, (_, i) => placeColour((i * 5) % 6, 6));
const INKS = COLOURS.map(inkOn);

export function Timeline(packed) {
  const [data, setData] = useState(null);
  useEffect(() => {
    unpackAll(packed).then(setData);
  }, []);
  return data ? <Drawn data={data} /> : <p class="note">The timeline is being unpacked.</p>;
}

function Drawn({ data }) {
  const canvas = useRef(null);
  const stage = useRef(null);
  const shown = useRef(null);
  const [links, setLinks] = useState(false);
  const [hovered, setHovered] = useState(null);
  const rows = useMemo(
    () => data.rows.map((row, i) => ({ ...row, index: i })).filter((row) => links || row.kind !== "link"),
    [data, links],
  );
  shown.current = { rows, hovered };
  const height = TOP + Math.min(Math.max(rows.length * 20, 40), 560);

  useEffect(() => {
    const made = makeStage(canvas.current, {
      draw: painter(data, shown),
      limits: [1, 20000],
      left: LEFT,
      onHover(x, y) {
        const slice = x === undefined ? -1 : sliceAt(data, shown.current.rows, made, x, y);
        setHovered(slice < 0 ? null : { slice, x, y });
      },
      onKey(key) {
        if (key !== "0") return false;
        made.moveTo(zoomIdentity);
        return true;
      },
    });
    stage.current = made;
    return () => made.end();
  }, [data]);
  useEffect(() => stage.current?.redraw(), [rows, hovered]);

  return (
    <div class="timeline">
      <div class="controls">
        {data.rows.some((row) => row.kind === "link") ? (
          <label><input type="checkbox" checked={links} onChange={() => setLinks(!links)} /> with {data.links ?? "links"}</label>
        ) : null}
        <div class="buttons">
          <button type="button" aria-label="Zoom in" onClick={() => stage.current.zoomBy(1.8)}>+</button>
          <button type="button" aria-label="Zoom out" onClick={() => stage.current.zoomBy(1 / 1.8)}>−</button>
          <button type="button" onClick={() => stage.current.moveTo(zoomIdentity)}>Fit</button>
          <button type="button" title="Opens ui.perfetto.dev in a tab, which shows the timeline" onClick={() => openTrace(traceOf(data))}>Open in Perfetto</button>
          <button type="button" onClick={() => saveTrace(traceOf(data))}>Save trace</button>
        </div>
      </div>
      <div class="canvas">
        <canvas ref={canvas} style={{ height: `${height}px` }} tabIndex={0} role="img" aria-label={`Timeline with ${rows.length} rows over ${secondsText(data.span)}. Arrow keys move it, plus and minus zoom, 0 shows it whole.`} />
        {hovered ? <Tip data={data} {...hovered} width={stage.current?.size()[0] ?? 0} /> : null}
      </div>
    </div>
  );
}

const toX = (data, t, width, seconds) => t.applyX(LEFT + (seconds / data.span) * (width - LEFT));

function painter(data, shown) {
  const { ptr, begin, length, label, group, labels, span } = data;
  return (context, t, width, height) => {
    const { rows, hovered } = shown.current;
    const each = (height - TOP) / rows.length;
    const scale = ((width - LEFT) * t.k) / span;
    const from = t.invertX(LEFT) - LEFT;
    const start = (from / (width - LEFT)) * span;
    const end = start + span / t.k;
    drawAxis(context, data, t, width, height, start, end);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height);
    context.clip();
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    rows.forEach((row, r) => {
      const top = TOP + r * each + 1;
      const high = Math.max(each - 2, 1);
      let drawn = -1;
      for (let i = lowest(begin, length, ptr[row.index], ptr[row.index + 1], start); i < ptr[row.index + 1]; i += 1) {
        if (begin[i] > end) break;
        const left = toX(data, t, width, begin[i]);
        const right = left + length[i] * scale;
        if (right <= drawn) continue;
        const shade = group ? group[i] % COLOURS.length : 0;
        context.fillStyle = COLOURS[shade];
        const wide = Math.max(right - left - (right - left > 4 ? 0.8 : 0), 1);
        context.fillRect(left, top, wide, high);
        drawn = Math.floor(left) + 1;
        if (wide > 40 && high > 11) {
          context.fillStyle = INKS[shade];
          const a = Math.max(left, LEFT);
          const room = Math.floor((Math.min(right, width) - a - 8) / 6);
          const text = labels[label[i]];
          if (room > 3) context.fillText(text.length <= room ? text : `…${text.slice(text.length - room + 1)}`, a + 4, top + high / 2);
        }
        if (hovered?.slice === i) {
          context.strokeStyle = styled("--accent");
          context.lineWidth = 2;
          context.strokeRect(left, top, wide, high);
        }
      }
    });
    context.restore();
    context.fillStyle = styled("--soft");
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = Math.ceil(12 / each);
    rows.forEach((row, r) => {
      if (r % every === 0) context.fillText(row.name.slice(-18), LEFT - 8, TOP + (r + 0.5) * each);
    });
    context.textAlign = "left";
  };
}

function drawAxis(context, data, t, width, height, start, end) {
  const step = niceStep((end - start) / Math.max((width - LEFT) / 110, 1));
  context.strokeStyle = styled("--line");
  context.fillStyle = styled("--soft");
  context.lineWidth = 1;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (let tick = Math.ceil(start / step) * step; tick <= end; tick += step) {
    const x = toX(data, t, width, tick);
    context.beginPath();
    context.moveTo(x, TOP - 6);
    context.lineTo(x, height);
    context.stroke();
    if (x < width - 50) context.fillText(secondsText(Math.abs(tick) < step / 1e6 ? 0 : tick), x + 3, TOP / 2);
  }
  if (!data.period) return;
  context.strokeStyle = styled("--accent");
  context.setLineDash([4, 3]);
  for (let tick = Math.ceil(start / data.period) * data.period; tick <= end; tick += data.period) {
    const x = toX(data, t, width, tick);
    context.beginPath();
    context.moveTo(x, TOP);
    context.lineTo(x, height);
    context.stroke();
  }
  context.setLineDash([]);
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
}

/** The first slice of a row that ends after a time. */
function lowest(begin, length, from, to, seconds) {
  let [a, b] = [from, to];
  while (a < b) {
    const middle = (a + b) >> 1;
    if (begin[middle] + length[middle] < seconds) a = middle + 1;
    else b = middle;
  }
  return a;
}

function sliceAt(data, rows, made, x, y) {
  const [width, height] = made.size();
  const row = rows[Math.floor((y - TOP) / ((height - TOP) / rows.length))];
  if (!row || x < LEFT || y < TOP) return -1;
  const seconds = ((made.transform().invertX(x) - LEFT) / (width - LEFT)) * data.span;
  const i = lowest(data.begin, data.length, data.ptr[row.index], data.ptr[row.index + 1], seconds);
  return i < data.ptr[row.index + 1] && data.begin[i] <= seconds ? i : -1;
}

function Tip({ data, slice, x, y, width }) {
  const place = x > width / 2 ? { right: `${width - x + 12}px` } : { left: `${x + 12}px` };
  return (
    <div class="tip" style={{ ...place, top: `${y + 12}px` }}>
      <b>{data.labels[data.label[slice]]}</b>
      <span>{secondsText(data.length[slice])}, from {secondsText(data.begin[slice])}</span>
      {data.word ? <span>{data.word} {data.group[slice].toLocaleString("en")}</span> : null}
    </div>
  );
}
