"use strict";
// Sorts a table by a column when its heading is pressed. Numbers sort by their full value.

function key(cell) {
  return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, undefined, { numeric: true });
}

function sort(button) {
  const heading = button.closest("th");
  const body = heading.closest("table").tBodies[0];
  const direction = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  for (const other of heading.parentElement.children) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const column = heading.cellIndex;
  const lines = [...body.rows].sort((a, b) => sign * compare(key(a.cells[column]), key(b.cells[column])));
  body.append(...lines);
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => sort(button));
}
