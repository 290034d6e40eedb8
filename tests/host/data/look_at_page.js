// Runs at the end of the page of `gemmgen report`, and leaves what it sees as JSON in an element of its own, "seen".
"use strict";
const seen = { errors };

// Of WCAG: the contrast of two colours, 1 to 21.
const channels = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map((text) => Number(text) / 255);
const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = (colour) => {
  const [r, g, b] = channels(colour).map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};

const TEXTS = "p, td, th, dt, dd, a, figcaption, svg .head, svg .note, svg .label, svg .tick, svg .below";
const ground = () => getComputedStyle(document.body).backgroundColor;
const ofText = (one) => {
  const style = getComputedStyle(one);
  return contrast(one.tagName === "text" ? style.fill : style.color, ground());
};
const worst = () => Math.min(...[...document.querySelectorAll(TEXTS)].slice(0, 4000).map(ofText));
seen.themes = [];
for (let turn = 0; turn < 2; turn++) {
  seen.themes.push({ ground: ground(), contrast: worst() });
  document.getElementById("theme").click();
}

const rows = () => [...document.querySelectorAll("tr[data-text]")].filter((row) => !row.hidden);
const field = document.getElementById("filter");
seen.rows = [rows().length];
field.value = "bf16 wgmma";
field.dispatchEvent(new Event("input"));
seen.rows.push(rows().length);
seen.filtered = rows().map((row) => row.textContent);
seen.count = document.getElementById("shown").textContent;

const reached = document.querySelectorAll("main a:not(svg a), button, input");
seen.unreachable = [...reached].filter((one) => one.tabIndex < 0).length;

const SLACK = 1.5; // of a picture's units
const leaves = (text, box) => {
  const { x, y, width, height } = text.getBBox();
  const beside = x < box.x - SLACK || x + width > box.x + box.width + SLACK;
  return beside || y < box.y - SLACK || y + height > box.y + box.height + SLACK;
};
const cut = (svg) => [...svg.querySelectorAll("text")].filter((text) => leaves(text, svg.viewBox.baseVal));
seen.cut = [...document.querySelectorAll("svg")].flatMap(cut).map((text) => text.textContent);
seen.wide = document.documentElement.scrollWidth - innerWidth;

const result = document.createElement("pre");
result.id = "seen";
result.textContent = JSON.stringify(seen);
document.body.append(result);
