// The package: chips by how busy they are, channels by their load; one of them can be looked at.
import { useRef, useState } from "preact/hooks";
import { inkOn, shareColour } from "../colours.js";
import { percentText, tell } from "../shared.js";

const HOST = -1;
const CHIP = 40;
const STUB = 22;
const LOOKS = { ring: 78, grid: 92, free: 104 };

export function Package({ shape, word, places, chips, links, details, pipelines, names }) {
  const busiest = chips.findIndex((chip) => chip.worst);
  const flagged = chips.some((chip) => chip.busy !== null && !chip.worst);
  const [chosen, setChosen] = useState({ chip: busiest >= 0 ? busiest : chips.findIndex((c) => c.busy !== null) });
  const svg = useRef(null);
  const unit = unitOf(shape, places);
  const at = places.map(([x, y]) => [x * unit, y * unit]);
  const edge = shape === "ring" ? 58 : 46;
  const xs = at.map(([x]) => x);
  const ys = at.map(([, y]) => y);
  const [left, top] = [Math.min(...xs) - edge, Math.min(...ys) - edge];
  const [width, height] = [Math.max(...xs) + edge - left, Math.max(...ys) + edge - top];
  const choose = (chip) => {
    setChosen({ chip });
    tell("chip", { chip, runs: chips[chip].runs });
  };
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || chosen.chip === undefined) return;
    event.preventDefault();
    const next = (chosen.chip + step + chips.length) % chips.length;
    choose(next);
    svg.current.querySelector(`[data-chip="${next}"]`)?.focus();
  };
  const between = links.filter((link) => link.from >= 0 && link.to >= 0);
  const outside = links.filter((link) => Math.max(link.from, link.to) >= 0 && Math.min(link.from, link.to) < 0);
  const both = new Set(between.map((link) => `${link.from} ${link.to}`));
  const roots = links.filter((link) => Math.max(link.from, link.to) < 0);
  const marks = shape === "ring" ? spokes(outside, at) : stubs(outside, at);
  const name = (chip) => (names ? names[chip] : `${word} ${chip}`);
  return (
    <div class="package">
      <div class="drawing">
        <svg
          ref={svg}
          class={shape}
          style={{ maxWidth: `${Math.round(1.3 * width)}px` }}
          viewBox={`${left} ${top} ${width} ${height}`}
          role="group"
          aria-label={`${chips.length} ${word}s; arrow keys go from one to the next`}
          onKeyDown={onKeyDown}
        >
          <defs>
            <pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <line x1="0" y1="0" x2="0" y2="6" class="hatch" />
            </pattern>
          </defs>
          {shape === "ring" && pipelines > 1 && pipelines < chips.filter((chip) => chip.busy !== null).length ? <Pipelines chips={chips} at={at} /> : null}
          {marks.map((mark) => (
            <Channel {...mark} chosen={chosen.link === mark.link} choose={() => setChosen({ link: mark.link })} />
          ))}
          {shape === "ring" && outside.some((l) => Math.min(l.from, l.to) === HOST) ? (
            <g class="host">
              <circle r="27" />
              <text dy="4">host</text>
            </g>
          ) : null}
          {between.flatMap((link) =>
            linesOf(at[link.from], at[link.to], both.has(`${link.to} ${link.from}`), shape === "grid" ? 1.5 * unit : Infinity).map((line) => (
              <Channel {...line} link={link} chosen={chosen.link === link} choose={() => setChosen({ link })} />
            )),
          )}
          {chips.map((chip, i) => (
            <Chip
              chip={chip}
              index={i}
              at={at[i]}
              label={names ? names[i] : String(i)}
              name={name(i)}
              chosen={chosen.chip === i}
              alike={chosen.chip !== undefined && chip.pipeline !== null && pipelines > 1 && chips[chosen.chip]?.pipeline === chip.pipeline}
              flagged={flagged}
              choose={choose}
            />
          ))}
        </svg>
        <Legend unused={chips.some((chip) => chip.busy === null)} worst={flagged && busiest >= 0} />
      </div>
      <Details {...{ chosen, chips, details, pipelines, name, roots, word }} />
    </div>
  );
}

function unitOf(shape, places) {
  if (shape !== "ring") return LOOKS[shape];
  const radius = Math.max(...places.map(([x, y]) => Math.hypot(x, y)));
  return Math.max(LOOKS.ring, 120 / radius);
}

function Chip({ chip, index, at, label, name, chosen, alike, flagged, choose }) {
  const used = chip.busy !== null;
  const fill = used ? shareColour(chip.busy) : "url(#idle)";
  const text = used ? `busy ${percentText(chip.busy)} of the time` : "not used";
  const wide = label.length > 3 ? 14 + 7.5 * label.length : CHIP;
  return (
    <g
      class={`chip${chosen ? " chosen" : ""}${alike ? " alike" : ""}${chip.worst && flagged ? " worst" : ""}`}
      transform={`translate(${at[0]} ${at[1]})`}
      role="button"
      tabindex={chosen ? 0 : -1}
      data-chip={index}
      aria-pressed={chosen}
      aria-label={`${name}, ${text}${chip.worst ? ", the bottleneck" : ""}`}
      onClick={() => choose(index)}
      onKeyDown={(event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          choose(index);
        }
      }}
    >
      <title>{`${name}: ${text}`}</title>
      <rect x={-wide / 2} y={-CHIP / 2} width={wide} height={CHIP} rx="6" fill={fill} />
      <text dy="4.5" fill={used ? inkOn(fill) : "currentColor"}>{label}</text>
      {chip.worst && flagged ? <path class="flag" d={`M${wide / 2 - 4} ${-CHIP / 2 - 7}l11 0l-5.5 9z`} /> : null}
    </g>
  );
}

/**
 * The line of a channel; on the right of where it goes if there is one the other way, too. Of one that
 * closes a circle of a grid, and is longer than `longest`, both ends: out of the grid, and into it.
 */
function linesOf([ax, ay], [bx, by], beside, longest) {
  const length = Math.hypot(bx - ax, by - ay);
  const way = length > longest ? -length : length;
  const [dx, dy] = [(bx - ax) / way, (by - ay) / way];
  const trim = (CHIP / 2 + 2) * Math.min(1 / Math.max(Math.abs(dx), Math.abs(dy)), 1.25);
  const shift = beside ? 4.5 : 0;
  const point = ([x, y], along) => [x + dx * along - dy * shift, y + dy * along + dx * shift];
  const [first, last] = [point([ax, ay], trim), point([bx, by], -trim - 3)];
  if (length <= longest) return [{ from: first, to: last }];
  return [
    { from: first, to: point([ax, ay], trim + STUB) },
    { from: point([bx, by], -trim - STUB), to: last },
  ];
}

/** Channels of the host, which is in the middle of a ring. */
function spokes(links, at) {
  return links.filter((link) => Math.min(link.from, link.to) === HOST).map((link) => {
    const chip = Math.max(link.from, link.to);
    const [x, y] = at[chip];
    const length = Math.hypot(x, y);
    const [dx, dy] = [x / length, y / length];
    const side = link.from < 0 ? 3.5 : -3.5;
    const near = [dx * 30 - dy * side, dy * 30 + dx * side];
    const far = [x - dx * 27 - dy * side, y - dy * 27 + dx * side];
    return link.from < 0 ? { link, from: near, to: far } : { link, from: far, to: near };
  }).concat(stubs(links.filter((link) => Math.min(link.from, link.to) !== HOST), at));
}

/** Channels to places outside: short arrows at the corners of chips. */
function stubs(links, at) {
  return links.map((link) => {
    const [x, y] = at[Math.max(link.from, link.to)];
    if (link.from === HOST) return { link, from: [x - 24, y - 32], to: [x - 13, y - 22] };
    if (link.to === HOST) return { link, from: [x + 13, y - 22], to: [x + 24, y - 32] };
    return { link, from: [x, y + 36], to: [x, y + 23] };
  });
}

function Channel({ from, to, link, chosen, choose }) {
  const used = link.busy !== null;
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.hypot(dx, dy) || 1;
  const width = used ? 2 + 4 * Math.min(link.busy, 1) : 1;
  const head = 3 + width;
  const [ux, uy] = [dx / length, dy / length];
  const back = [to[0] - ux * head, to[1] - uy * head];
  const colour = used ? shareColour(link.busy) : "var(--line)";
  const arrow = `M${to[0]} ${to[1]}L${back[0] - uy * head * 0.6} ${back[1] + ux * head * 0.6}L${back[0] + uy * head * 0.6} ${back[1] - ux * head * 0.6}Z`;
  return (
    <g class={`channel${used ? "" : " idle"}${chosen ? " chosen" : ""}${link.worst ? " worst" : ""}`} onClick={used ? choose : undefined}>
      <title>{`${link.name}: ${used ? `busy ${percentText(link.busy)}, ${link.load}` : "not used"}`}</title>
      <line class="area" x1={from[0]} y1={from[1]} x2={to[0]} y2={to[1]} />
      <line class="rim" x1={from[0]} y1={from[1]} x2={back[0]} y2={back[1]} stroke-width={width + 2} />
      <line x1={from[0]} y1={from[1]} x2={back[0]} y2={back[1]} stroke={colour} stroke-width={width} />
      <path d={arrow} fill={colour} />
    </g>
  );
}

/** An arc outside of the chips of each pipeline. */
function Pipelines({ chips, at }) {
  const spans = new Map();
  chips.forEach((chip, i) => {
    if (chip.pipeline !== null) spans.set(chip.pipeline, [...(spans.get(chip.pipeline) ?? []), i]);
  });
  const radius = Math.hypot(...at[0]) + 32;
  const half = (2 * Math.PI) / at.length / 2.6;
  return [...spans].map(([pipeline, own]) => {
    const angle = (i) => Math.atan2(at[i][1], at[i][0]);
    const start = angle(own[0]) - half;
    const end = start + ((2 * Math.PI) / at.length) * (own[own.length - 1] - own[0]) + 2 * half;
    const point = (a, r) => `${r * Math.cos(a)} ${r * Math.sin(a)}`;
    const middle = (start + end) / 2;
    return (
      <g class="pipeline">
        <path d={`M${point(start, radius)}A${radius} ${radius} 0 ${end - start > Math.PI ? 1 : 0} 1 ${point(end, radius)}`} />
        <text x={(radius + 13) * Math.cos(middle)} y={(radius + 13) * Math.sin(middle) + 4}>{pipeline}</text>
        <title>{`pipeline ${pipeline}`}</title>
      </g>
    );
  });
}

function Legend({ unused, worst }) {
  const steps = Array.from({ length: 24 }, (_, i) => i / 23);
  return (
    <div class="legend">
      <span>busy 0 %</span>
      <svg viewBox="0 0 144 12" width="144" height="12" aria-hidden="true">
        {steps.map((t, i) => <rect x={6 * i} y="0" width="6.5" height="12" fill={shareColour(t)} />)}
      </svg>
      <span>100 %</span>
      {unused ? <span class="key"><i class="unused" />not used</span> : null}
      {worst ? <span class="key"><i class="flag">▼</i>bottleneck</span> : null}
    </div>
  );
}

function Details({ chosen, chips, details, pipelines, name, roots, word }) {
  let title = "Nothing is chosen";
  let rows = [];
  let bar = null;
  if (chosen.link) {
    title = chosen.link.name;
    rows = [["busy", percentText(chosen.link.busy)], ["per inference", chosen.link.load]];
  } else if (chosen.chip >= 0) {
    const chip = chips[chosen.chip];
    title = name(chosen.chip);
    bar = chip.busy;
    rows = chip.runs === null ? [["", "runs nothing"]] : details[chip.runs];
    if (pipelines > 1 && chip.runs !== null) {
      rows = [["pipeline", `${chip.pipeline} of ${pipelines}`], ["runs the model of", name(chip.runs)], ...rows];
    }
  }
  return (
    <aside class="details" aria-live="polite">
      <h3>{title}</h3>
      {bar !== null ? (
        <div class="meter" aria-hidden="true"><span style={{ width: `${100 * Math.min(bar, 1)}%`, background: shareColour(bar) }} /></div>
      ) : null}
      <dl>{rows.map(([label, text]) => <div><dt>{label}</dt><dd>{text}</dd></div>)}</dl>
      {roots.length ? (
        <>
          <h4>What all chips share</h4>
          <dl>{roots.map((link) => <div><dt>{link.name}</dt><dd>{percentText(link.busy)}</dd></div>)}</dl>
        </>
      ) : null}
      <p class="hint">Choose a {word} or a link in the map; arrow keys go from {word} to {word}.</p>
    </aside>
  );
}
