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
      ? [["/", "搜索"], ["j k", "下一行、上一行"], ["Enter", "打开"], ["n p", "下一页（队列中的下一条）、上一条"], ["g o", "概览"], ["g t", "主题"], ["g m", "消息"], ["g g", "消费组"], ["g d", "医生"], ["?", "帮助"]]
      : [["/", "search"], ["j k", "next row, previous row"], ["Enter", "open it"], ["n p", "next page or message, previous message"], ["g o", "overview"], ["g t", "topics"], ["g m", "messages"], ["g g", "groups"], ["g d", "doctor"], ["?", "this help"]];
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

// A time is drawn in the chart with a pointer; the lists below it have the same time.
function prepareBrush() {
  const chart = document.getElementById("chart");
  const form = document.querySelector("form.selection");
  const svg = chart && chart.querySelector("svg");
  if (!svg || !form) return;
  const counts = chart.dataset.counts.split(",").map(Number);
  const left = Number(chart.dataset.left), width = Number(chart.dataset.width);
  const since = form.elements.since, until = form.elements.until;
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  shape.setAttribute("class", "brush");
  shape.setAttribute("y", "16");
  shape.setAttribute("height", "200");
  let start = null, wasDrawn = false;

  function show() {
    if (until.selectedIndex < since.selectedIndex) until.selectedIndex = since.selectedIndex;
    const low = since.selectedIndex, high = until.selectedIndex + 1;
    shape.setAttribute("x", left + low * width);
    shape.setAttribute("width", (high - low) * width);
    svg.append(shape);
    const sum = counts.slice(low, high).reduce((total, each) => total + each, 0);
    document.getElementById("selected").textContent = sum.toLocaleString("en");
  }

  function columnAt(event) {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    return Math.min(Math.max(Math.floor((x - left) / width), 0), counts.length - 1);
  }

  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    start = columnAt(event);
    wasDrawn = false;
  });
  svg.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const now = columnAt(event);
    if (now === start && !wasDrawn) return;
    wasDrawn = true;
    since.selectedIndex = Math.min(start, now);
    until.selectedIndex = Math.max(start, now);
    show();
  });
  window.addEventListener("pointerup", () => { start = null; });
  // A column is a link, which is not followed at the end of a selection.
  svg.addEventListener("click", (event) => { if (wasDrawn) event.preventDefault(); }, true);
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  form.addEventListener("change", show);
  chart.classList.add("draws");
}
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.id === "activity") prepareBrush();
});
prepareBrush();
