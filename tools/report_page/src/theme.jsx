// The switch between light and dark; at first the page follows the system.
import { useState } from "preact/hooks";
import { tell } from "./shared.js";

const ORDER = ["system", "light", "dark"];

function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  tell("theme", theme);
}

export function ThemeSwitch() {
  const [theme, setTheme] = useState("system");
  const next = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
  const change = () => {
    setTheme(next);
    apply(next);
  };
  return (
    <button type="button" onClick={change} aria-label={`Colours: ${theme}; change to ${next}`}>
      <span aria-hidden="true">{{ system: "◐", light: "○", dark: "●" }[theme]}</span> {theme}
    </button>
  );
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => tell("theme", "system"));
