"use strict";
// Draws the figures in the page's own colours and stacks their panels when the page is narrow.

const FIGURES = JSON.parse(document.getElementById("figures").textContent);
const CONFIG = {
  displaylogo: false,
  responsive: true,
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
};
const NARROW = 640; // pixels below which panels are stacked
const PRINTED = 680; // pixels that fit a page of A4 or letter
const ENTRY = 170; // pixels that an entry of a legend takes, at most
const LINE = 30; // and the height of a line of them

function theme() {
  const style = getComputedStyle(document.body);
  const [ink, soft, rule, paper] = ["--ink", "--soft", "--rule", "--paper"].map((name) =>
    style.getPropertyValue(name).trim(),
  );
  return { ink, soft, rule, paper, family: style.fontFamily };
}

function themed(layout) {
  const { ink, soft, rule, paper, family } = theme();
  const axis = { gridcolor: rule, linecolor: rule, zerolinecolor: soft, tickfont: { color: soft } };
  const result = {
    legend: { orientation: "h", yref: "container", y: 1, yanchor: "top", x: 0 },
    margin: { l: 8, r: 16, t: (layout.showlegend === false ? 16 : 44) + (layout.meta ? 22 : 0), b: 8 },
    hovermode: "closest",
    ...structuredClone(layout),
    font: { family, size: 13, color: ink },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: rule, activecolor: soft },
    hoverlabel: { bgcolor: paper, bordercolor: soft, font: { color: ink } },
  };
  for (const key of Object.keys(result)) {
    if (!/^[xy]axis/.test(key)) continue;
    result[key] = { ...axis, ...result[key] };
    result[key].title = { ...result[key].title, font: { size: 13 } };
  }
  for (const shape of result.shapes ?? []) {
    if (!shape.line?.color) shape.line = { ...shape.line, color: soft };
  }
  return result;
}

// Panels side by side become panels below each other, with room for an axis title between them.
function stacked(layout, count) {
  layout.height *= count;
  const gap = 80 / layout.height;
  const share = (1 - gap * (count - 1)) / count;
  for (let i = 0; i < count; i++) {
    const suffix = i === 0 ? "" : String(i + 1);
    const top = 1 - i * (share + gap);
    layout[`xaxis${suffix}`].domain = [0, 1];
    Object.assign(layout[`yaxis${suffix}`], { domain: [top - share, top], showticklabels: true });
    layout.annotations[i].x = 0;
    layout.annotations[i].y = top;
  }
  return layout;
}

// A legend of several lines is no part of the plot's height, nor lies on its titles.
function withRoomForLegend(layout, data, width) {
  if (layout.showlegend === false) return layout;
  const entries = data.filter((trace) => trace.name && trace.showlegend !== false).length;
  const more = LINE * Math.max(0, Math.ceil((entries * ENTRY) / width) - 1);
  layout.margin.t += more;
  layout.height += more;
  return layout;
}

function plotOf(id) {
  return document.getElementById(`${id}-plot`);
}

function draw(id, width) {
  const plot = plotOf(id);
  const { data, layout } = FIGURES[id];
  const panels = layout.meta?.panels ?? 1;
  const result = themed(layout);
  const narrow = plot.clientWidth < NARROW;
  if (narrow && panels > 1) stacked(result, panels);
  withRoomForLegend(result, data, width ?? plot.clientWidth);
  plot.style.height = `${result.height}px`;
  if (width) result.width = width;
  Plotly.react(plot, data, result, { ...CONFIG, displayModeBar: narrow ? false : "hover" });
  // A screen reader gets the description and the table, not loose texts of axes.
  for (const svg of plot.querySelectorAll(".main-svg")) svg.setAttribute("aria-hidden", "true");
}

// One figure per idle moment, so that the page answers while it draws.
function drawAll() {
  const waiting = Object.keys(FIGURES).sort(
    (a, b) => plotOf(a).offsetTop - plotOf(b).offsetTop,
  );
  const next = () => {
    if (waiting.length === 0) return;
    draw(waiting.shift());
    setTimeout(next);
  };
  next();
}

function redrawAll(width) {
  for (const id of Object.keys(FIGURES)) draw(id, width);
}

if (window.Plotly) {
  drawAll();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => redrawAll());
  window.addEventListener("beforeprint", () => redrawAll(PRINTED));
  window.addEventListener("afterprint", () => redrawAll());
} else {
  document.body.classList.add("no-plots");
}
