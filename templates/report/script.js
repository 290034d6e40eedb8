"use strict";
(function () {
  const root = document.documentElement, button = document.getElementById("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const show = () => { button.textContent = dark() ? "light" : "dark"; };
  try { const kept = localStorage.getItem("gemmgen-theme"); if (kept) root.dataset.theme = kept; } catch (e) { /* no storage: the system's */ }
  button.hidden = false;
  show();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("gemmgen-theme", root.dataset.theme); } catch (e) { /* until the page is left */ }
    show();
  });
  const field = document.getElementById("filter"), count = document.getElementById("shown");
  const rows = [...document.querySelectorAll("tr[data-text]")];
  field.closest(".controls").hidden = false;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => row.dataset.text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length}`;
  });
})();
