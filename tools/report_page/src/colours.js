// Colours that people with any colour vision tell apart: cividis for shares, viridis for places.
import { interpolateCividis, interpolateViridis } from "d3-scale-chromatic";

const clamp = (share) => Math.min(Math.max(share, 0), 1);

/** Of a share: dark blue where there is little, yellow where there is most. */
export const shareColour = (share) => interpolateCividis(clamp(share));

/** Of a place among many, in their order; every second one is lighter, to tell neighbours. */
export function placeColour(place, count) {
  const [r, g, b] = channels(interpolateViridis(count > 1 ? 0.08 + (0.88 * place) / (count - 1) : 0.35));
  const light = place % 2 ? 0.28 : 0;
  return `rgb(${[r, g, b].map((c) => Math.round(c + (255 - c) * light)).join(",")})`;
}

/** Red, green and blue of `rgb(r, g, b)` or `#rrggbb`. */
export function channels(colour) {
  if (colour.startsWith("#")) {
    return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  }
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}

/** Black or white, whichever reads better on a colour. */
export function inkOn(colour) {
  const [r, g, b] = channels(colour).map((c) => {
    const part = c / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

/** As a pixel of image data. */
export function pixel(colour) {
  const [r, g, b] = channels(colour);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

let probe = null;

/** The colour that a custom property of the style in force comes to. */
export function styled(name) {
  if (!probe) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
