// What views tell each other: the chip that is looked at, and that colours have changed.

const listeners = { chip: new Set(), theme: new Set() };
const latest = {};

export function listen(event, listener) {
  listeners[event].add(listener);
  if (event in latest) listener(latest[event]);
  return () => listeners[event].delete(listener);
}

export function tell(event, value) {
  if (event === "chip") latest.chip = value;
  for (const listener of listeners[event]) listener(value);
}

/** Such as 12.3 us; three digits, as everywhere in reports. */
export function secondsText(seconds) {
  if (seconds === 0) return "0 s";
  for (const [scale, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]]) {
    if (Math.abs(seconds) >= scale * 0.9995) return `${threeDigits(seconds / scale)} ${unit}`;
  }
  return `${seconds.toPrecision(3)} s`;
}

/** Such as 41.2 MiB. */
export function bytesText(size) {
  for (const [scale, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]]) {
    if (size >= scale * 0.9995) return `${(size / scale).toFixed(1)} ${unit}`;
  }
  return `${size.toFixed(0)} B`;
}

/** Such as 87.2 %. */
export const percentText = (share) => (share === null ? "-" : `${(100 * share).toFixed(1)} %`);

function threeDigits(number) {
  const size = Math.abs(number);
  return number.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}
