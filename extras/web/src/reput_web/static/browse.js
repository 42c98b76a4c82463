// Keys, a row that is selected, and a button that stops a search. The pages work without it.
"use strict";

const rows = () => Array.from(document.querySelectorAll("table.rows tbody tr")).filter((row) => row.querySelector("a"));

function select(step) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.classList.contains("at"));
  const next = Math.min(Math.max(now + step, 0), all.length - 1);
  all.forEach((row, place) => row.classList.toggle("at", place === next));
  const link = all[next].querySelector("a");
  link.focus({ preventScroll: true });
  all[next].scrollIntoView({ block: "nearest" });
}

function showHelp() {
  let help = document.getElementById("help");
  if (!help) {
    help = document.createElement("dialog");
    help.id = "help";
    const isChinese = document.documentElement.lang.startsWith("zh");
    const lines = isChinese
      ? [["/", "搜索"], ["j k", "下一行、上一行"], ["Enter", "打开"], ["n p", "下一页（队列中的下一条）、上一条"], ["g o", "概览"], ["g t", "主题"], ["g m", "消息"], ["g g", "消费组"], ["?", "帮助"]]
      : [["/", "search"], ["j k", "next row, previous row"], ["Enter", "open it"], ["n p", "next page or message, previous message"], ["g o", "overview"], ["g t", "topics"], ["g m", "messages"], ["g g", "groups"], ["?", "this help"]];
    for (const [keys, text] of lines) {
      const line = document.createElement("p");
      const key = document.createElement("kbd");
      key.textContent = keys;
      line.append(key, text);
      help.append(line);
    }
    document.body.append(help);
    help.addEventListener("click", () => help.close());
  }
  help.showModal();
}

const PLACES = { o: "/overview", t: "/topics", m: "/messages", g: "/groups", d: "/doctor" };
let wasG = false;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.key === "Enter" && event.target.matches("textarea")) event.target.form.requestSubmit();
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (wasG && PLACES[event.key]) {
    location.href = PLACES[event.key];
    return;
  }
  wasG = event.key === "g";
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("find").focus();
  } else if (event.key === "j") select(1);
  else if (event.key === "k") select(-1);
  else if (event.key === "?") showHelp();
  else if (event.key === "n" || event.key === "p") {
    const link = document.querySelector(event.key === "n" ? "[rel=next], #more a" : "[rel=prev]");
    if (link) link.click();
  }
});

// A search continues by itself until it is stopped; then a click continues it.
let isStopped = false;

function prepare() {
  const bar = document.getElementById("searching");
  if (bar) bar.hidden = isStopped || !document.querySelector("#more a[data-goes-on]");
}

// Before htmx sees the click.
document.addEventListener("click", (event) => {
  if (event.target.matches("#more a")) isStopped = false;
}, true);
document.addEventListener("click", (event) => {
  if (!event.target.matches("button.stop")) return;
  isStopped = true;
  const link = document.querySelector("#more a");
  if (link) htmx.trigger(link, "htmx:abort");
  prepare();
});
document.addEventListener("htmx:beforeRequest", (event) => {
  if (isStopped && event.target.matches("#more a")) event.preventDefault();
});
document.addEventListener("htmx:beforeSwap", (event) => {
  if (isStopped) event.detail.shouldSwap = false;
});
// The live page keeps its newest rows only.
function forgetOldRows() {
  if (!document.getElementById("fresh")) return;
  const all = rows();
  all.slice(500).forEach((row) => row.remove());
}

document.addEventListener("htmx:afterSettle", prepare);
document.addEventListener("htmx:afterSettle", forgetOldRows);
prepare();
