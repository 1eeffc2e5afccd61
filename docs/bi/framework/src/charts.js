// Charts of published rows. A measure is a column that has columns _lower and _upper beside it.
import * as Plot from "@observablehq/plot";

const colour = "var(--theme-foreground-focus)";
const written = (value) => value.toLocaleString("en", {maximumFractionDigits: 0});
const hint = (row, measure) =>
  `${row.label}, ${row.period}: ${written(row[measure])} ` +
  `(${written(row[`${measure}_lower`])} to ${written(row[`${measure}_upper`])})`;

// One label over time. Where no row shows it, or a whole period is missing, line and band have a gap.
export function overTime(rows, measure, label, width) {
  const found = new Map(rows.filter((row) => row.label === label).map((row) => [row.period_start, row]));
  const starts = [...new Set(rows.map((row) => row.period_start))].sort();
  const days = starts.map((start) => new Date(start));
  const steps = days.map((day, i) => (i ? day - days[i - 1] : Infinity));
  const longest = 1.5 * Math.min(...steps); // months differ by less
  const points = starts.flatMap((start, i) => {
    const point = {...found.get(start), day: days[i]};
    return i && steps[i] > longest ? [{day: days[i]}, point] : [point];
  });
  const shown = points.filter((point) => measure in point);
  return Plot.plot({
    width,
    height: 280,
    marginLeft: 56,
    x: {label: null, type: "utc"},
    y: {label: measure, grid: true, zero: true, ticks: 5},
    ariaLabel: `${measure} of ${label} over time, with intervals`,
    marks: [
      Plot.ruleY([0]),
      Plot.areaY(points, {x: "day", y1: `${measure}_lower`, y2: `${measure}_upper`, fill: colour, fillOpacity: 0.2}),
      Plot.lineY(points, {x: "day", y: measure, stroke: colour}),
      Plot.dot(shown, {x: "day", y: measure, r: 2, fill: colour}),
      Plot.tip(shown, Plot.pointerX({x: "day", y: measure, title: (row) => hint(row, measure)}))
    ]
  });
}

// Nodes of one level of one release, each bar with its interval.
export function byLabel(rows, measure, width) {
  return Plot.plot({
    width,
    marginLeft: 110,
    marginRight: 30,
    x: {label: measure, grid: true, ticks: width < 500 ? 4 : 8},
    y: {label: null},
    ariaLabel: `${measure} by label, with intervals`,
    marks: [
      Plot.barX(rows, {
        y: "label",
        x: measure,
        sort: {y: "-x"},
        fill: colour,
        fillOpacity: 0.6,
        title: (row) => hint(row, measure)
      }),
      Plot.ruleY(rows, {y: "label", x1: `${measure}_lower`, x2: `${measure}_upper`, strokeWidth: 2}),
      Plot.ruleX([0])
    ]
  });
}
