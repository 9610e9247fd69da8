// The timeline as a trace: saved as a file, or handed to the viewer of perfetto.dev in another tab.

const VIEWER = "https://ui.perfetto.dev";
const PATIENCE_MS = 60_000;

/** Trace events of the rows of a timeline, as JSON. */
export function traceOf({ rows, ptr, begin, length, label, labels, group, word }) {
  const events = rows.flatMap(({ name }, tid) => {
    const found = [{ ph: "M", pid: 1, tid, name: "thread_name", args: { name } }];
    for (let i = ptr[tid]; i < ptr[tid + 1]; i += 1) {
      const args = word ? { [word]: group[i] } : {};
      found.push({ ph: "X", pid: 1, tid, name: labels[label[i]], ts: 1e6 * begin[i], dur: 1e6 * length[i], args });
    }
    return found;
  });
  return JSON.stringify({ traceEvents: events });
}

export function saveTrace(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "timeline.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Opens the viewer, and hands it the trace when it answers. */
export function openTrace(text) {
  const tab = open(VIEWER);
  if (!tab) return;
  const asking = setInterval(() => tab.postMessage("PING", VIEWER), 100);
  const stop = () => {
    clearInterval(asking);
    removeEventListener("message", answer);
  };
  const answer = ({ source, origin, data }) => {
    if (source !== tab || origin !== VIEWER || data !== "PONG") return;
    stop();
    const { buffer } = new TextEncoder().encode(text);
    tab.postMessage({ perfetto: { buffer, title: document.title, fileName: "timeline.json" } }, VIEWER);
  };
  addEventListener("message", answer);
  setTimeout(stop, PATIENCE_MS);
}
