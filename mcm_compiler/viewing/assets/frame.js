// Asks the server for the version of its page, and loads the page again where there is another one.
const frame = document.querySelector("iframe");
const foot = document.querySelector("footer");
const told = document.querySelector("[role=status]");
const PAUSE_MS = 1000;
let version = null;

function say(text, problem) {
  if (told.textContent !== text) told.textContent = text;
  foot.classList.toggle("problem", problem);
}

// The page draws its views one after the other; only then is it as high as it was.
function back(top) {
  const inner = frame.contentWindow;
  if (inner.document.documentElement.dataset.ready === "yes") {
    inner.scrollTo({ top, behavior: "instant" });
    frame.dataset.shown = version;
  } else {
    setTimeout(back, 50, top);
  }
}

function show() {
  const inner = frame.contentWindow;
  const top = version === null ? 0 : inner.scrollY;
  frame.onload = () => {
    document.title = frame.contentDocument.title;
    back(top);
  };
  if (version === null) frame.src = `report.html${location.hash}`;
  else inner.location.reload();
}

async function look() {
  try {
    const answer = await fetch("state", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const state = await answer.json();
    if (state.version !== version) {
      show();
      const again = version !== null;
      version = state.version;
      say(again ? `compiled again, seen at ${new Date().toLocaleTimeString()}` : "updates when the folder is compiled again", false);
    }
    if (state.problem !== null) say(`${state.problem}; this is the last page that could be read`, true);
    else if (foot.classList.contains("problem")) say("can be read again", false);
  } catch {
    say("mcmc view has ended; this page stays as it is", true);
  }
  setTimeout(look, PAUSE_MS);
}
look();
