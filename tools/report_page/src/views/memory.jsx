// The memory of a chip: addresses upwards, its kernels to the right, a box for each buffer.
import { useEffect, useRef, useState } from "preact/hooks";
import { inkOn, placeColour, styled } from "../colours.js";
import { bytesText, listen } from "../shared.js";
import { makeStage, zoomIdentity } from "../stage.js";
import { unpackAll } from "../unpack.js";

const LEFT = 84;
const BOTTOM = 22;

export function Memory(packed) {
  const [data, setData] = useState(null);
  useEffect(() => {
    unpackAll(packed).then(setData);
  }, []);
  return data ? <Drawn data={data} /> : <p class="note">The memory map is being unpacked.</p>;
}

function Drawn({ data }) {
  const canvas = useRef(null);
  const stage = useRef(null);
  const shown = useRef(null);
  const fullest = data.chips.reduce((best, chip, i) => (chip.need / chip.limit > data.chips[best].need / data.chips[best].limit ? i : best), 0);
  const [chosen, setChosen] = useState(fullest);
  const [whole, setWhole] = useState(false);
  const [hovered, setHovered] = useState(null);
  shown.current = { chosen, whole, hovered };
  useEffect(() => {
    const made = makeStage(canvas.current, {
      draw: painter(data, shown),
      limits: [1, 2000],
      left: LEFT,
      onHover(x, y) {
        const buffer = x === undefined ? -1 : bufferAt(data, shown.current, made, x, y);
        setHovered(buffer < 0 ? null : { buffer, x, y });
      },
      onKey(key) {
        if (key !== "0") return false;
        made.moveTo(zoomIdentity);
        return true;
      },
    });
    stage.current = made;
    const unlisten = listen("chip", ({ runs }) => {
      const place = data.chips.findIndex((chip) => chip.chip === runs);
      if (place >= 0) setChosen(place);
    });
    return () => {
      made.end();
      unlisten();
    };
  }, [data]);
  useEffect(() => stage.current?.redraw(), [chosen, whole, hovered]);
  const chip = data.chips[chosen];
  const choose = (event) => {
    setChosen(Number(event.target.value));
    stage.current.moveTo(zoomIdentity);
  };
  return (
    <div class="memory">
      <div class="controls">
        <label>
          Chip <select value={chosen} onChange={choose}>
            {data.chips.map((one, i) => <option value={i}>{one.name}: {bytesText(one.need)} of {bytesText(one.limit)}</option>)}
          </select>
        </label>
        <label><input type="checkbox" checked={whole} onChange={() => setWhole(!whole)} /> all {bytesText(chip.limit)}</label>
        <div class="buttons">
          <button type="button" aria-label="Zoom in" onClick={() => stage.current.zoomBy(1.8)}>+</button>
          <button type="button" aria-label="Zoom out" onClick={() => stage.current.zoomBy(1 / 1.8)}>−</button>
          <button type="button" onClick={() => stage.current.moveTo(zoomIdentity)}>Fit</button>
        </div>
      </div>
      <div class="canvas">
        <canvas ref={canvas} style={{ height: "24rem" }} tabIndex={0} role="img" aria-label={`Memory map of ${chip.name}: ${bytesText(chip.need)} of ${bytesText(chip.limit)} are needed. Arrow keys move it, plus and minus zoom, 0 shows it whole.`} />
        {hovered ? <Tip data={data} chip={chosen} {...hovered} width={stage.current?.size()[0] ?? 0} /> : null}
      </div>
      <ul class="legend places">
        {data.kinds.map((kind, i) => has(data, chosen, i) ? <li><i style={{ background: kindColour(data, i) }} />{kind}</li> : null)}
      </ul>
    </div>
  );
}

const kindColour = (data, kind) => placeColour((kind * 2) % 6 + (kind > 2 ? 1 : 0), data.kinds.length);

function has(data, chosen, kind) {
  for (let i = data.ptr[chosen]; i < data.ptr[chosen + 1]; i += 1) if (data.kind[i] === kind) return true;
  return false;
}

/** Where a buffer is drawn: left, top, width, height. */
function boxOf(data, { chosen, whole }, t, [width, height], i) {
  const chip = data.chips[chosen];
  const bytes = whole ? chip.limit : chip.need || 1;
  const inner = height - BOTTOM - 8;
  const x = (kernel) => t.applyX(LEFT + (kernel / Math.max(chip.kernels, 1)) * (width - LEFT));
  const y = (address) => t.applyY(8 + inner * (1 - address / bytes));
  const left = x(data.first[i]);
  const top = y(data.address[i] + data.size[i]);
  return [left, top, x(data.last[i] + 1) - left, y(data.address[i]) - top];
}

function painter(data, shown) {
  return (context, t, width, height) => {
    const { chosen, whole, hovered } = shown.current;
    const chip = data.chips[chosen];
    const bytes = whole ? chip.limit : chip.need || 1;
    const inner = height - BOTTOM - 8;
    const colours = data.kinds.map((_, i) => kindColour(data, i));
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height - BOTTOM);
    context.clip();
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.lineWidth = 1;
    context.strokeStyle = styled("--plot");
    for (let i = data.ptr[chosen]; i < data.ptr[chosen + 1]; i += 1) {
      const [left, top, wide, high] = boxOf(data, shown.current, t, [width, height], i);
      if (left > width || left + wide < LEFT || top > height || top + high < 0) continue;
      context.fillStyle = colours[data.kind[i]];
      context.fillRect(left, top, Math.max(wide, 1), Math.max(high, 0.6));
      if (high > 3 && wide > 3) context.strokeRect(left, top, wide, high);
      if (high > 13 && wide > 50) {
        context.fillStyle = inkOn(colours[data.kind[i]]);
        const a = Math.max(left, LEFT);
        const room = Math.floor((Math.min(left + wide, width) - a - 8) / 6);
        const text = data.names[i];
        const middle = (Math.max(top, 0) + Math.min(top + high, height - BOTTOM)) / 2;
        if (room > 3) context.fillText(text.length <= room ? text : `…${text.slice(text.length - room + 1)}`, a + 4, middle);
      }
    }
    if (hovered) {
      context.strokeStyle = styled("--accent");
      context.lineWidth = 2;
      context.strokeRect(...boxOf(data, shown.current, t, [width, height], hovered.buffer));
    }
    context.restore();
    context.fillStyle = styled("--soft");
    context.textAlign = "right";
    const step = bytes / t.k / 6;
    const power = 2 ** Math.ceil(Math.log2(step));
    const low = bytes * (1 - (t.invertY(height - BOTTOM) - 8) / inner);
    for (let tick = Math.ceil(Math.max(low, 0) / power) * power; tick <= bytes * 1.0001; tick += power) {
      const y = t.applyY(8 + inner * (1 - tick / bytes));
      if (y < 4) break;
      if (y < height - BOTTOM + 1) context.fillText(bytesText(tick), LEFT - 8, Math.max(y, 8));
    }
    context.textAlign = "left";
    context.fillText(`${chip.kernels.toLocaleString("en")} ${chip.kernels === 1 ? "kernel" : "kernels, in their order"} →`, LEFT, height - BOTTOM / 2);
  };
}

function bufferAt(data, shown, made, x, y) {
  const { chosen } = shown;
  for (let i = data.ptr[chosen]; i < data.ptr[chosen + 1]; i += 1) {
    const [left, top, wide, high] = boxOf(data, shown, made.transform(), made.size(), i);
    if (x >= left && x <= left + wide && y >= top && y <= top + Math.max(high, 1) && x >= LEFT) return i;
  }
  return -1;
}

function Tip({ data, chip, buffer, x, y, width }) {
  const place = x > width / 2 ? { right: `${width - x + 12}px` } : { left: `${x + 12}px` };
  let before = 0;
  for (let i = 0; i < chip; i += 1) before += data.chips[i].kernels;
  const [first, last] = [data.first[buffer], data.last[buffer]];
  return (
    <div class="tip" style={{ ...place, top: `${y + 12}px` }}>
      <b>{data.names[buffer]}</b>
      <span>{data.kinds[data.kind[buffer]]}, {bytesText(data.size[buffer])} from 0x{data.address[buffer].toString(16)}</span>
      <span>{first === last ? `while ${data.kernels[before + first] ?? "-"} runs` : `from ${data.kernels[before + first] ?? "-"} to ${data.kernels[before + last] ?? "-"}`}</span>
    </div>
  );
}
