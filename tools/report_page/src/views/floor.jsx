// Floor plans of chips that are grids of units.
import { useState } from "preact/hooks";
import { placeColour } from "../colours.js";

const CELL = 30;
const MARGIN = 36;
const STEPS = [[1, 0], [-1, 0], [0, -1], [0, 1]];
const KINDS = ["computes", "holds", "input and output"];

export function Floor({ plans }) {
  const [chosen, setChosen] = useState(0);
  const [stage, setStage] = useState(null);
  const plan = plans[chosen];
  const most = Math.max(1, ...plan.links.map(([, flits]) => flits));
  const centre = (row, col) => [MARGIN + (col + 0.5) * CELL, MARGIN + (row + 0.5) * CELL];
  const width = plan.cols * CELL + 2 * MARGIN;
  const height = plan.rows * CELL + 2 * MARGIN;
  return (
    <div class="floor">
      {plans.length > 1 ? (
        <div class="controls">
          <label>Plan of <select value={chosen} onChange={(e) => { setChosen(Number(e.target.value)); setStage(null); }}>
            {plans.map((one, i) => <option value={i}>{one.name}</option>)}
          </select></label>
        </div>
      ) : null}
      <div class="package">
        <svg class="plan" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Floor plan of ${plan.name}: ${plan.units.length} units of ${plan.stages.length} stages on ${plan.rows} by ${plan.cols} switches`}>
          {plan.links.map(([link, flits]) => {
            const [dx, dy] = STEPS[link % 4];
            const at = Math.floor(link / 4);
            const [x, y] = centre(Math.floor(at / plan.cols), at % plan.cols);
            const [sx, sy] = [x - 3 * dy, y + 3 * dx];
            return (
              <line class="wire" x1={sx} y1={sy} x2={sx + dx * CELL} y2={sy + dy * CELL} stroke-width={0.6 + (3.4 * flits) / most}>
                <title>{`${flits.toLocaleString("en")} flits`}</title>
              </line>
            );
          })}
          {plan.units.map(([row, col, kind, own]) => {
            const [x, y] = centre(row, col);
            const colour = placeColour(own, plan.stages.length);
            const faint = stage !== null && stage !== own;
            return (
              <g class={faint ? "unit faint" : "unit"} onMouseEnter={() => setStage(own)} onMouseLeave={() => setStage(null)}>
                <title>{`${plan.stages[own] ?? "?"}: ${KINDS[kind]}`}</title>
                {kind === 0 ? <rect x={x - 9} y={y - 9} width="18" height="18" rx="2" fill={colour} />
                  : kind === 1 ? <circle cx={x} cy={y} r="7.5" class="ring" stroke={colour} />
                    : <path d={`M${x} ${y - 9}l9 9l-9 9l-9 -9Z`} fill={colour} />}
              </g>
            );
          })}
        </svg>
        <aside class="details" aria-label="Stages">
          <h3>{plan.stages.length.toLocaleString("en")} stages</h3>
          <ol class="stages" tabIndex={0} aria-label="Stages in the order of the data">
            {plan.stages.map((name, i) => (
              <li class={stage === i ? "chosen" : ""} onMouseEnter={() => setStage(i)} onMouseLeave={() => setStage(null)}>
                <i style={{ background: placeColour(i, plan.stages.length) }} />{name}
              </li>
            ))}
          </ol>
        </aside>
      </div>
    </div>
  );
}
