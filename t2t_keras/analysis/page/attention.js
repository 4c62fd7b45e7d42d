// The explorer: words left and right, a line for each weight, a colour for each head.

const state = {
  kind: "cross", layer: 0, heads: new Set(data.colours.keys()), head: 0, query: 0, key: 0,
};
const computed = new Map();

/** Computes all steps of one head from its queries, keys and values. */
function attend(kind, layer, head) {
  const name = `${kind} ${layer} ${head}`;
  if (computed.has(name)) return computed.get(name);
  const { layers, hides_later } = data.kinds[kind];
  const [Q, K, V] = ["query", "key", "value"].map(
    (part) => matrices(layers[layer][part].values, layers[layer][part].shape)[head],
  );
  const scores = Q.times(K.transposed());
  const scaled = scores.map((score) => score / Math.sqrt(Q.columns));
  const masked = scaled.map(
    (score, row, column) => (hides_later && column > row ? -Infinity : score),
  );
  const weights = masked.softmax();
  const result = { Q, K, V, scores, scaled, masked, weights, output: weights.times(V) };
  computed.set(name, result);
  return result;
}

const LINE = 24;
const [LEFT, RIGHT] = [190, 430];
const LEAST = 0.02;
const middle = (i) => LINE * (i + 0.5) + 4;
let hovered = null;
let kept = null;
const same = (one, other) => one?.side === other?.side && one?.index === other?.index;

/** Draws the words of both sides, and then the lines between them. */
function drawWords() {
  const { queries, keys } = data.kinds[state.kind];
  const height = LINE * Math.max(queries.length, keys.length) + 8;
  const svg = shape("svg", {
    viewBox: `0 0 ${RIGHT + LEFT} ${height}`, width: RIGHT + LEFT, height, role: "img",
    "aria-label": "Lines from each word to those that it attends to",
  });
  svg.append(shape("g"));
  const words = (tokens, side, x, anchor) => tokens.forEach((token, index) => {
    const here = { side, index };
    const word = shape("text", {
      x, y: middle(index) + 5, "text-anchor": anchor, class: "token", tabindex: 0,
      "data-side": side, "data-index": index,
    }, token);
    const hover = (what) => () => {
      hovered = what;
      drawLines();
    };
    word.addEventListener("pointerenter", hover(here));
    word.addEventListener("pointerleave", hover(null));
    const keep = () => {
      kept = same(kept, here) ? null : here;
      choose(side === "query" ? { query: index } : { key: index });
    };
    word.addEventListener("click", keep);
    word.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      keep();
    });
    svg.append(word);
  });
  words(queries, "query", LEFT - 8, "end");
  words(keys, "key", RIGHT + 8, "start");
  at("lines").replaceChildren(svg);
}

/** Draws the lines of the heads that are on, of one word alone where one is chosen. */
function drawLines() {
  const focus = hovered ?? kept;
  const lines = [];
  for (const head of state.heads) {
    const { weights } = attend(state.kind, state.layer, head);
    for (let row = 0; row < weights.rows; row++) {
      if (focus?.side === "query" && focus.index !== row) continue;
      for (let column = 0; column < weights.columns; column++) {
        if (focus?.side === "key" && focus.index !== column) continue;
        const weight = weights.get(row, column);
        if (weight < LEAST) continue;
        lines.push(shape("line", {
          x1: LEFT, y1: middle(row), x2: RIGHT, y2: middle(column),
          stroke: data.colours[head], "stroke-opacity": weight.toFixed(3),
          "stroke-width": focus ? 3 : 2,
        }));
      }
    }
  }
  at("lines").querySelector("g").replaceChildren(...lines);
  for (const word of at("lines").querySelectorAll(".token")) {
    const { side, index } = word.dataset;
    word.classList.toggle("chosen", same(focus, { side, index: Number(index) }));
  }
  at("lines-text").textContent = focus ? described(focus) : "";
}

/** Says in words what a word attends to, or is attended to by, most. */
function described({ side, index }) {
  const { queries, keys } = data.kinds[state.kind];
  const others = side === "query" ? keys : queries;
  const mean = others.map((_, other) => {
    const [row, column] = side === "query" ? [index, other] : [other, index];
    const each = [...state.heads].map(
      (head) => attend(state.kind, state.layer, head).weights.get(row, column),
    );
    return each.reduce((a, b) => a + b, 0) / Math.max(each.length, 1);
  });
  const best = [...mean.keys()].sort((a, b) => mean[b] - mean[a]).slice(0, 3);
  const list = best.map((i) => `${others[i]} ${format(mean[i])}`).join(", ");
  const token = (side === "query" ? queries : keys)[index];
  return side === "query"
    ? `${token} attends to: ${list} (mean of the heads shown)`
    : `${token} is attended to by: ${list} (mean of the heads shown)`;
}

function drawControls() {
  at("kind").value = state.kind;
  at("layer").replaceChildren(
    ...data.kinds[state.kind].layers.map((_, i) => option(String(i + 1), i)),
  );
  at("layer").value = state.layer;
  for (const button of at("heads").querySelectorAll("button")) {
    button.ariaPressed = String(state.heads.has(Number(button.value)));
  }
}

/** Changes what is looked at, and draws all that depends on it. */
function choose(changes) {
  const before = state.kind;
  Object.assign(state, changes);
  const { layers, queries, keys } = data.kinds[state.kind];
  if (state.kind !== before || !at("lines").firstChild) {
    hovered = kept = null;
    drawWords();
  }
  state.layer = Math.min(state.layer, layers.length - 1);
  state.query = Math.min(state.query, queries.length - 1);
  state.key = Math.min(state.key, keys.length - 1);
  drawControls();
  drawLines();
  drawSteps();
}

at("kind").append(...Object.entries(data.kinds).map(([kind, { title }]) => option(title, kind)));
at("kind").addEventListener("change", () => choose({ kind: at("kind").value }));
at("layer").addEventListener("change", () => choose({ layer: Number(at("layer").value) }));
data.colours.forEach((colour, head) => {
  const button = element("button", {
    type: "button", className: "head", value: head, textContent: head + 1,
    ariaLabel: `head ${head + 1}`,
  });
  button.style.setProperty("--head", colour);
  button.addEventListener("click", () => {
    const heads = new Set(state.heads);
    if (!heads.delete(head)) heads.add(head);
    choose({ heads });
  });
  button.addEventListener("dblclick", () => choose({ heads: new Set([head]), head }));
  at("heads").append(button);
});
at("all-heads").addEventListener("click", () => choose({ heads: new Set(data.colours.keys()) }));

at("model").textContent = data.model;
at("source").textContent = data.source;
at("translation").textContent = data.translation;
