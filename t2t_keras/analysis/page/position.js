// The positional encoding as a heat map and as curves.

const encoding = matrices(data.position.values, [1, ...data.position.shape])[0];
const isSinusoidal = data.position.waves !== null;

/** The formula of a dimension (section 3.5); null if there is none. */
const waveOf = (dimension) => isSinusoidal ? data.position.waves[dimension] : null;

/** The angular frequency of a dimension. */
const frequency = ({ numerator, denominator }) => 10000 ** (-numerator / denominator);

function drawPositions() {
  const dimension = Number(at("dimension").value);
  const wave = waveOf(dimension);
  at("dimension-text").textContent = wave
    ? `${dimension}: ${wave.function}(pos / 10000^(${wave.numerator}/${wave.denominator})), `
      + `wavelength ${(2 * Math.PI / frequency(wave)).toFixed(1)} positions`
    : `${dimension}`;
  at("position-map").replaceChildren(heatmap("positions × dimensions", encoding, {
    cell: [Math.max(1, Math.min(6, Math.floor(roomFor("position-map") / encoding.columns))), 5],
    chosen: { column: dimension },
    pick: (_, column) => {
      at("dimension").value = column;
      drawPositions();
    },
    hint: (row, column) => `position ${row}, dimension ${column}: ${format(encoding.get(row, column))}`,
  }));
  at("position-curves").replaceChildren(curves(dimension));
  letScroll("Positional encoding", at("position-map"));
}

const roomFor = (id) => Math.min(900, at(id).clientWidth || 900);

/** Draws a dimension and, if sinusoidal, the other wave of the same frequency. */
function curves(dimension) {
  const [width, height, left, top] = [roomFor("position-curves"), 180, 40, 14];
  const column = Array.from({ length: encoding.rows }, (_, row) => encoding.get(row, dimension));
  const most = isSinusoidal ? 1 : Math.max(...column.map(Math.abs), 1e-9);
  const x = (position) => left + (width - left - 10) * position / Math.max(encoding.rows - 1, 1);
  const y = (value) => top + (height - 2 * top) * (1 - value / most) / 2;
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `Dimension ${dimension} by position`,
  });
  for (const value of [most, 0, -most]) {
    svg.append(
      shape("line", { x1: left, x2: width - 10, y1: y(value), y2: y(value), class: "axis" }),
      shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "small" }, format(value)),
    );
  }
  const formula = waveOf(dimension);
  if (formula) {
    const path = (wave) => Array.from({ length: 801 }, (_, i) => {
      const position = (encoding.rows - 1) * i / 800;
      return `${i ? "L" : "M"}${x(position).toFixed(1)},${y(wave(position * frequency(formula))).toFixed(1)}`;
    }).join("");
    const [own, other] = formula.function === "cos" ? [Math.cos, Math.sin] : [Math.sin, Math.cos];
    svg.append(
      shape("path", { d: path(other), class: "other-wave" }),
      shape("path", { d: path(own), class: "wave" }),
    );
  }
  column.forEach((value, position) => svg.append(shape("circle", {
    cx: x(position), cy: y(value), r: 2.5, class: "value", "data-value": value,
  })));
  return svg;
}

at("position-text").textContent = isSinusoidal
  ? "Attention itself does not know the order of words. A position vector is added to each word vector. Each pair of its dimensions is a sine and a cosine of one wavelength, from 2π to 10,000 · 2π positions (section 3.5)."
  : "Attention itself does not know the order of words. A position vector is added to each word vector. This model has learned its position vectors (Table 3, row E).";
at("dimension").max = encoding.columns - 1;
at("dimension").value = Math.min(4, encoding.columns - 1);
at("dimension").addEventListener("input", drawPositions);
at("position-legend").textContent =
  `Positions 0 to ${encoding.rows - 1} from left to right. Points: values of this model.`
  + (isSinusoidal ? " Thick line: the formula. Thin line: the other wave of the pair." : "");
drawPositions();
addEventListener("resize", drawPositions);
