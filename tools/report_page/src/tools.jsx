// Buttons at the top of the page: its colours, and its first screen as Markdown.
import { useState } from "preact/hooks";
import { tell } from "./shared.js";

const ORDER = ["system", "light", "dark"];

function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  tell("theme", theme);
}

export function Tools() {
  const [theme, setTheme] = useState("system");
  const [copied, setCopied] = useState(false);
  const next = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
  const change = () => {
    setTheme(next);
    apply(next);
  };
  const copySummary = async () => {
    await copy(summary());
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <>
      {document.querySelector(".answer") ? (
        <button type="button" class="copy" aria-live="polite" onClick={copySummary}>{copied ? "Copied" : "Copy as Markdown"}</button>
      ) : null}
      <button type="button" class="theme" onClick={change} aria-label={`Colours: ${theme}; change to ${next}`}>
        <span aria-hidden="true">{{ system: "◐", light: "○", dark: "●" }[theme]}</span> {theme}
      </button>
    </>
  );
}

/** The title, the first fact and all answers, as `report.md` begins. */
export function summary() {
  const text = (node) => node?.textContent.trim().replace(/\s+/g, " ").replace(/[\\`*_{}[\]<>|#~]/g, "\\$&") ?? "";
  const rows = [...document.querySelectorAll(".answer")].map((answer) => {
    const details = [...answer.querySelectorAll(".detail")].map(text);
    return `| ${text(answer.querySelector("h3"))} | ${[`**${text(answer.querySelector(".figure"))}**`, ...details].join("; ")} |`;
  });
  const head = [`# ${text(document.querySelector("h1"))}`, "", text(document.querySelector(".facts span")), ""];
  return `${[...head, "|  |  |", "| --- | --- |", ...rows].join("\n")}\n`;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => tell("theme", "system"));
