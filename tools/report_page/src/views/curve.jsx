// A curve of a search: the best score by the number of placements that were tried.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { styled } from "../colours.js";
import { listen, secondsText } from "../shared.js";

const HEIGHT = 260;

export function Curve({ x, y, xName, yName, bound }) {
  const place = useRef(null);
  useEffect(() => {
    let plot = null;
    const draw = () => {
      plot?.destroy();
      const axis = { stroke: styled("--soft"), grid: { stroke: styled("--line"), width: 1 }, ticks: { stroke: styled("--line") } };
      const bounds = bound === null ? [] : [{ label: "proven bound", stroke: styled("--warn"), dash: [6, 4], width: 1.5, value: (_, v) => (v === null ? "-" : secondsText(v)) }];
      const options = {
        width: place.current.clientWidth,
        height: HEIGHT,
        scales: { x: { time: false } },
        axes: [{ ...axis, label: xName, labelSize: 26 }, { ...axis, size: 80, values: (_, ticks) => ticks.map(secondsText) }],
        series: [
          { label: xName },
          { label: yName, stroke: styled("--accent"), width: 2, paths: uPlot.paths.stepped({ align: 1 }), value: (_, v) => (v === null ? "-" : secondsText(v)) },
          ...bounds,
        ],
      };
      const columns = bound === null ? [x, y] : [x, y, x.map(() => bound)];
      plot = new uPlot(options, columns, place.current);
    };
    draw();
    const observer = new ResizeObserver(() => plot.setSize({ width: place.current.clientWidth, height: HEIGHT }));
    observer.observe(place.current);
    const unlisten = listen("theme", draw);
    return () => {
      observer.disconnect();
      unlisten();
      plot.destroy();
    };
  }, []);
  return <div class="curve" ref={place} />;
}
