// A canvas that is drawn again when its size, its colours or what it shows changes; with zoom and
// pan by mouse, touch and keyboard.
import { select } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { listen } from "./shared.js";

const STEP = 1.35;
const SHIFT = 60;

/**
 * Turns a canvas into a stage.
 *
 * @param canvas its element, which has a size by style.
 * @param options
 *   draw(context, transform, width, height): draws all, in CSS pixels.
 *   limits: [least, most] scale.
 *   left: pixels on the left that stay; with it the picture is kept within the rest.
 *   onHover(x, y) and onClick(x, y): in CSS pixels; onHover() where the pointer has left.
 * @returns redraw(), moveTo(transform), transform(), size() and end().
 */
export function makeStage(canvas, { draw, limits, left, onHover, onClick, onKey }) {
  const context = canvas.getContext("2d");
  let transform = zoomIdentity;
  let [width, height, waiting] = [0, 0, false];

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (!width) return;
      const ratio = devicePixelRatio || 1;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      draw(context, transform, width, height);
    });
  }

  const moves = zoom()
    .scaleExtent(limits)
    .clickDistance(4)
    // The wheel scrolls the page until the canvas is the one that is used.
    .filter((event) => (event.type === "wheel" ? event.ctrlKey || document.activeElement === canvas : !event.button))
    .on("zoom", (event) => {
      transform = event.transform;
      redraw();
    });
  const selection = select(canvas).call(moves).on("dblclick.zoom", null);
  const moveTo = (to) => selection.call(moves.transform, to);

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const hover = (event) => onHover?.(...place(event));
  const leave = () => onHover?.();
  const click = (event) => {
    canvas.focus({ preventScroll: true });
    onClick?.(...place(event));
  };
  const keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = [width / 2, height / 2];
    const actions = {
      "+": () => selection.call(moves.scaleBy, STEP, middle),
      "=": () => selection.call(moves.scaleBy, STEP, middle),
      "-": () => selection.call(moves.scaleBy, 1 / STEP, middle),
      ArrowLeft: () => selection.call(moves.translateBy, SHIFT / transform.k, 0),
      ArrowRight: () => selection.call(moves.translateBy, -SHIFT / transform.k, 0),
      ArrowUp: () => selection.call(moves.translateBy, 0, SHIFT / transform.k),
      ArrowDown: () => selection.call(moves.translateBy, 0, -SHIFT / transform.k),
    };
    if (onKey?.(event.key)) event.preventDefault();
    else if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  };
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("click", click);
  canvas.addEventListener("keydown", keys);

  const observer = new ResizeObserver(([entry]) => {
    const before = [width, height];
    ({ width, height } = entry.contentRect);
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    if (left !== undefined) {
      const inner = [[left, 0], [width, height]];
      moves.extent(inner).translateExtent(inner);
      if (before[0] && Math.abs(before[0] - width) > 1) moveTo(zoomIdentity);
    }
    if (before[0] === 0 || Math.abs(before[0] - width) > 1) canvas.dispatchEvent(new Event("fit"));
    redraw();
  });
  observer.observe(canvas);
  const unlisten = listen("theme", redraw);
  return {
    redraw,
    moveTo,
    zoomBy: (factor) => selection.call(moves.scaleBy, factor, [width / 2, height / 2]),
    limit: (least, most) => moves.scaleExtent([least, most]),
    transform: () => transform,
    size: () => [width, height],
    end() {
      observer.disconnect();
      unlisten();
    },
  };
}

/** The transform that shows a drawing of a size whole, in the middle of a canvas. */
export function fitting([width, height], [canvasWidth, canvasHeight], most = 1.2) {
  const margin = 14;
  const k = Math.min((canvasWidth - 2 * margin) / width, (canvasHeight - 2 * margin) / height, most);
  return zoomIdentity.translate((canvasWidth - k * width) / 2, (canvasHeight - k * height) / 2).scale(k);
}

export { zoomIdentity };
