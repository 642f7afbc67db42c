"use strict";
// Sorting by a column's button, and a filter of the findings.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [value(row), row]);
      rows.sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }) * (down ? -1 : 1));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
// On a narrow page rows are cards (report.tmpl): each cell says what it is.
for (const table of document.querySelectorAll("table.sortable, table.pieces")) {
  const names = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, i) => (cell.dataset.name = names[i]));
  table.parentElement.classList.add("cards");
}
const filter = document.getElementById("filter");
if (filter) {
  const rows = [...document.querySelectorAll("tr.finding")];
  const shown = document.getElementById("shown");
  filter.addEventListener("input", () => {
    const want = filter.value.toLowerCase();
    let n = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(want);
      if (!row.hidden) n++;
    }
    shown.textContent = n + " of " + rows.length;
  });
}
// A link to a finding opens it.
const open = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
addEventListener("hashchange", open);
open();
