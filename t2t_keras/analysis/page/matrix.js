// Decoding, computing with and drawing matrices.

const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);

/** Creates an HTML element with attributes (or properties) and children. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Creates an SVG element. */
function shape(name, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const option = (label, value) => element("option", { value, textContent: label });
const format = (number) => number.toFixed(Math.abs(number) < 0.0995 ? 3 : 2);

class Matrix {
  constructor(rows, columns, values = new Float32Array(rows * columns)) {
    Object.assign(this, { rows, columns, values });
  }
  get(row, column) {
    return this.values[row * this.columns + column];
  }
  map(change) {
    return new Matrix(this.rows, this.columns, this.values.map(
      (value, i) => change(value, Math.floor(i / this.columns), i % this.columns),
    ));
  }
  transposed() {
    const result = new Matrix(this.columns, this.rows);
    result.values.forEach((_, i) => {
      result.values[i] = this.get(i % this.rows, Math.floor(i / this.rows));
    });
    return result;
  }
  times(other) {
    const result = new Matrix(this.rows, other.columns);
    for (let row = 0; row < this.rows; row++) {
      for (let column = 0; column < other.columns; column++) {
        let sum = 0;
        for (let k = 0; k < this.columns; k++) sum += this.get(row, k) * other.get(k, column);
        result.values[row * other.columns + column] = sum;
      }
    }
    return result;
  }
  /** Softmax over each row. */
  softmax() {
    const result = new Matrix(this.rows, this.columns);
    for (let row = 0; row < this.rows; row++) {
      const start = row * this.columns;
      const scores = this.values.subarray(start, start + this.columns);
      const maximum = Math.max(...scores);
      const powers = Array.from(scores, (score) => Math.exp(score - maximum));
      const sum = powers.reduce((a, b) => a + b);
      powers.forEach((power, i) => { result.values[start + i] = power / sum; });
    }
    return result;
  }
}

/** Decodes base64 float32 numbers of shape [matrices, rows, columns]. */
function matrices(text, [number, rows, columns]) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const values = new Float32Array(bytes.buffer);
  return Array.from({ length: number }, (_, i) => new Matrix(
    rows, columns, values.subarray(i * rows * columns, (i + 1) * rows * columns),
  ));
}

/** Returns whether black has more contrast on a colour than white (WCAG luminance). */
function isLight(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const part = parseInt(colour.slice(i, i + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
}

/** Makes a box scrollable by keyboard if its content is wider than the box. */
function letScroll(label, box) {
  box.role = "group";
  box.ariaLabel = label;
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

/** Colour from blue through white to red; grey for masked values. */
function twoSided(value, maximum) {
  if (value === -Infinity) return [128, 128, 128];
  const share = Math.max(-1, Math.min(1, value / maximum));
  const [r, g, b] = share < 0 ? [33, 102, 172] : [178, 24, 43];
  const mix = (colour) => Math.round(247 + (colour - 247) * Math.abs(share));
  return [mix(r), mix(g), mix(b)];
}

/** Colour from white to dark blue. */
function oneSided(value, maximum) {
  const share = Math.sqrt(Math.max(0, Math.min(1, value / maximum)));
  return [8, 48, 107].map((colour) => Math.round(255 + (colour - 255) * share));
}

/**
 * Draws a matrix as a heat map.
 * rowLabels, columnLabels: optional labels; chosen: row and column to mark, undefined
 * for all rows or columns; pick: called with row and column when a cell is clicked.
 */
function heatmap(name, matrix, { rowLabels, columnLabels, chosen = {}, cell = [14, 14],
  colour = twoSided, maximum, pick, hint }) {
  const { rows, columns } = matrix;
  const finite = matrix.values.filter(Number.isFinite);
  const limit = maximum ?? finite.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
  const canvas = element("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  matrix.values.forEach((value, i) => image.data.set([...colour(value, limit), 255], 4 * i));
  context.putImageData(image, 0, 0);
  const [width, height] = [columns * cell[0], rows * cell[1]];
  const cells = element("div", { className: "cells" }, canvas);
  cells.style.cssText = `width: ${width}px; height: ${height}px`;
  const place = (event) => {
    const box = cells.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / cell[1]);
    const column = Math.floor((event.clientX - box.left) / cell[0]);
    return [Math.min(rows - 1, Math.max(0, row)), Math.min(columns - 1, Math.max(0, column))];
  };
  cells.addEventListener("pointermove", (event) => {
    const [row, column] = place(event);
    const value = matrix.get(row, column);
    const where = `${rowLabels?.[row] ?? row}, ${columnLabels?.[column] ?? column}`;
    cells.title = hint?.(row, column)
      ?? `${where}: ${Number.isFinite(value) ? format(value) : "masked"}`;
  });
  if (pick) cells.addEventListener("click", (event) => pick(...place(event)));
  if (chosen.row !== undefined || chosen.column !== undefined) {
    const mark = element("div", { className: "mark" });
    mark.style.cssText = (chosen.row === undefined
      ? "top: -2px; height: calc(100% + 4px);"
      : `top: ${chosen.row * cell[1] - 2}px; height: ${cell[1] + 4}px;`)
      + (chosen.column === undefined
        ? "left: -2px; width: calc(100% + 4px)"
        : `left: ${chosen.column * cell[0] - 2}px; width: ${cell[0] + 4}px`);
    cells.append(mark);
  }
  const labels = (texts, className, current) => element(
    "div", { className },
    ...texts.map((text, i) => element(
      "span", { textContent: text, className: i === current ? "chosen" : "" },
    )),
  );
  return element(
    "figure", { ariaLabel: name },
    element("figcaption", {}, `${name} `,
      element("small", { textContent: `[${rows}, ${columns}]` })),
    element(
      "div", { className: "matrix" },
      ...(columnLabels ? [labels(columnLabels, "columns", chosen.column)] : []),
      ...(rowLabels ? [labels(rowLabels, "rows", chosen.row)] : []),
      cells,
    ),
  );
}
