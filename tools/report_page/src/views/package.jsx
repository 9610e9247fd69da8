// The package: a strip for each chip (busy by engine, memory), channels as wide as they are busy.
import { useEffect, useRef, useState } from "preact/hooks";
import { percentText, tell } from "../shared.js";

const HOST = -1;
const [WIDE, HIGH] = [46, 60];
const BARS = 36;
const STUB = 14;
const PITCH = { grid: [72, 96], free: [104, 104] };
/** Share of the period below which channels to places outside are thin lines. */
const MATTERS = 0.2;
/** Of the chips of each kind, where there are several. */
const OUTLINES = ["solid", "dashed", "dotted"];

export function Package({ shape, word, places, chips, links, details, pipelines, names, engines, kinds = [] }) {
  const busiest = chips.findIndex((chip) => chip.worst);
  const flagged = chips.some((chip) => chip.busy !== null && !chip.worst);
  const [chosen, setChosen] = useState({ chip: busiest >= 0 ? busiest : chips.findIndex((c) => c.busy !== null) });
  const svg = useRef(null);
  const [across, down] = PITCH[shape];
  const at = places.map(([x, y]) => [x * across, y * down]);
  const edge = 52;
  const xs = at.map(([x]) => x);
  const ys = at.map(([, y]) => y);
  const [left, top] = [Math.min(...xs) - edge, Math.min(...ys) - edge];
  const [width, height] = [Math.max(...xs) + edge - left, Math.max(...ys) + edge - top];
  const choose = (chip) => {
    setChosen({ chip });
    tell("chip", { chip, runs: chips[chip].runs });
    history.replaceState(null, "", `#${word}-${chip}`);
  };
  useEffect(() => {
    const follow = (event) => {
      const [, kind, chip] = /^#(\w+)-(\d+)$/.exec(location.hash) ?? [];
      if (kind !== word || !chips[chip]) return;
      choose(Number(chip));
      // A page that is loaded again stays where it was.
      const again = performance.getEntriesByType("navigation")[0]?.type === "reload";
      if (event || !again) svg.current.scrollIntoView({ block: "center" });
    };
    follow();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
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
  const name = (chip) => (names ? names[chip] : `${word} ${chip}${kinds.length ? ` (${kinds[chip]})` : ""}`);
  const kindsThere = [...new Set(kinds)];
  return (
    <div class="package">
      <div class="drawing">
        <svg
          ref={svg}
          class={shape}
          style={{ maxWidth: `${Math.round(1.2 * width)}px`, minWidth: `${Math.round(Math.min(0.8 * width, 540))}px` }}
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
          {stubs(outside, at).map((mark) => (
            <Channel {...mark} thin={!mark.link.worst && mark.link.busy < MATTERS} chosen={chosen.link === mark.link} choose={() => setChosen({ link: mark.link })} />
          ))}
          {between.flatMap((link) =>
            linesOf(at[link.from], at[link.to], both.has(`${link.to} ${link.from}`), shape === "grid" ? 1.5 * down : Infinity).map((line) => (
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
              kind={Math.max(kindsThere.indexOf(kinds[i]), 0)}
              chosen={chosen.chip === i}
              alike={chosen.chip !== undefined && chip.pipeline !== null && pipelines > 1 && chips[chosen.chip]?.pipeline === chip.pipeline}
              flagged={flagged}
              choose={choose}
            />
          ))}
        </svg>
        <Legend engines={engines} kinds={kindsThere} pipelines={pipelines} unused={chips.some((chip) => chip.busy === null)} worst={flagged && busiest >= 0} outside={outside} />
      </div>
      <Details {...{ chosen, chips, details, pipelines, name, roots, word }} />
    </div>
  );
}

function Chip({ chip, index, at, label, name, kind, chosen, alike, flagged, choose }) {
  const used = chip.busy !== null;
  const held = chip.memory === null || chip.memory === undefined ? "" : `, memory ${percentText(chip.memory)} full`;
  const text = used ? `busy ${percentText(chip.busy)} of the time${held}` : "not used";
  const wide = label.length > 3 ? 14 + 7.5 * label.length : WIDE;
  const base = HIGH / 2 - 5;
  let level = base;
  const tone = `${chosen ? " chosen" : ""}${alike ? " alike" : ""}${chip.worst && flagged ? " worst" : ""}${chip.pipeline % 2 ? " odd" : ""}`;
  return (
    <g
      class={`chip kind-${kind}${tone}`}
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
      <rect class="body" x={-wide / 2} y={-HIGH / 2} width={wide} height={HIGH} rx="6" />
      {used ? null : <rect x={-wide / 2} y={-HIGH / 2} width={wide} height={HIGH} rx="6" fill="url(#idle)" />}
      <text y={-HIGH / 2 + 14}>{label}</text>
      {used ? <rect class="well" x="-16" y={base - BARS} width="18" height={BARS} /> : null}
      {(chip.parts ?? []).map((part, i) => {
        const size = BARS * Math.min(part, 1);
        level -= size;
        return size ? <rect class={`engine-${i}`} x="-16" y={level} width="18" height={size} /> : null;
      })}
      {held ? <rect class="well" x="7" y={base - BARS} width="9" height={BARS} /> : null}
      {held ? <rect class={chip.memory > 1 ? "memory over" : "memory"} x="7" y={base - BARS * Math.min(chip.memory, 1)} width="9" height={BARS * Math.min(chip.memory, 1)} /> : null}
      {chip.worst && flagged ? <path class="flag" d={`M${wide / 2 - 4} ${-HIGH / 2 - 7}l11 0l-5.5 9z`} /> : null}
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
  const trim = 2 + Math.min(WIDE / 2 / Math.max(Math.abs(dx), 1e-9), HIGH / 2 / Math.max(Math.abs(dy), 1e-9));
  const shift = beside ? 4.5 : 0;
  const point = ([x, y], along) => [x + dx * along - dy * shift, y + dy * along + dx * shift];
  const [first, last] = [point([ax, ay], trim), point([bx, by], -trim - 1)];
  if (length <= longest) return [{ from: first, to: last }];
  return [
    { from: first, to: point([ax, ay], trim + STUB) },
    { from: point([bx, by], -trim - STUB), to: last },
  ];
}

/** Channels to places outside: arrows of the host above chips, of off-package memory below. */
function stubs(links, at) {
  return links.map((link) => {
    const [x, y] = at[Math.max(link.from, link.to)];
    const near = y - HIGH / 2 - 2;
    if (link.from === HOST) return { link, from: [x - 12, near - STUB], to: [x - 12, near] };
    if (link.to === HOST) return { link, from: [x + 12, near], to: [x + 12, near - STUB] };
    return { link, from: [x, y + HIGH / 2 + 2 + STUB], to: [x, y + HIGH / 2 + 2] };
  });
}

function Channel({ from, to, link, thin, chosen, choose }) {
  const used = link.busy !== null;
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.hypot(dx, dy) || 1;
  const width = used && !thin ? 1.5 + 5 * Math.min(link.busy, 1) : 1;
  const head = 3 + width;
  const [ux, uy] = [dx / length, dy / length];
  const back = [to[0] - ux * head, to[1] - uy * head];
  const arrow = `M${to[0]} ${to[1]}L${back[0] - uy * head * 0.6} ${back[1] + ux * head * 0.6}L${back[0] + uy * head * 0.6} ${back[1] - ux * head * 0.6}Z`;
  return (
    <g class={`channel${used && !thin ? "" : " idle"}${chosen ? " chosen" : ""}${link.worst ? " worst" : ""}`} onClick={used ? choose : undefined}>
      <title>{`${link.name}: ${used ? `busy ${percentText(link.busy)}, ${link.load}` : "not used"}`}</title>
      <line class="area" x1={from[0]} y1={from[1]} x2={to[0]} y2={to[1]} />
      <line class="wire" x1={from[0]} y1={from[1]} x2={back[0]} y2={back[1]} stroke-width={width} />
      <path d={arrow} />
    </g>
  );
}

function Legend({ engines, kinds, pipelines, unused, worst, outside }) {
  const off = outside.some((link) => Math.min(link.from, link.to) < HOST);
  const host = outside.some((link) => Math.min(link.from, link.to) === HOST);
  return (
    <div class="legend">
      <span>left bar, busy:</span>
      {engines.map((engine, i) => <span class="key"><i class={`engine-${i}`} />{engine}</span>)}
      <span class="key"><i class="memory" />right bar, memory</span>
      {kinds.length > 1 ? kinds.map((kind, i) => <span class="key">{OUTLINES[Math.min(i, 2)]} outline: {kind}</span>) : null}
      {unused ? <span class="key"><i class="unused" />not used</span> : null}
      {worst ? <span class="key"><i class="flag">▼</i>bottleneck</span> : null}
      <span class="key">links: the wider, the busier{host ? "; above chips: host" : ""}{off ? "; below: off-package memory" : ""}</span>
      {pipelines > 1 ? <span class="key">shading alternates by replica</span> : null}
    </div>
  );
}

function Details({ chosen, chips, details, pipelines, name, roots, word }) {
  let title = "Nothing is chosen";
  let rows = [];
  let parts = null;
  if (chosen.link) {
    title = chosen.link.name;
    rows = [["busy", percentText(chosen.link.busy)], ["per inference", chosen.link.load]];
  } else if (chosen.chip >= 0) {
    const chip = chips[chosen.chip];
    title = name(chosen.chip);
    parts = chip.parts;
    rows = chip.runs === null ? [["", "runs nothing"]] : details[chip.runs];
    if (pipelines > 1 && chip.runs !== null) {
      rows = [["replica", `${chip.pipeline} of ${pipelines}`], ["runs the model of", name(chip.runs)], ...rows];
    }
  }
  return (
    <aside class="details" aria-label="Chosen chip or link" aria-live="polite">
      <h3>{title}</h3>
      {parts ? (
        <div class="meter" aria-hidden="true">{parts.map((part, i) => <span class={`engine-${i}`} style={{ width: `${100 * Math.min(part, 1)}%` }} />)}</div>
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
