// Attention view: words left and right, a line for each weight, a colour for each head.

const state = {
  kind: "cross", layer: 0, heads: new Set(data.colours.keys()), head: 0, query: 0, key: 0,
};
const computed = new Map();

/** Computes all steps of attention of one head from its queries, keys and values. */
function attend(kind, layer, head) {
  const name = `${kind} ${layer} ${head}`;
  if (computed.has(name)) return computed.get(name);
  const { layers, hides_later, reach } = data.kinds[kind];
  const [Q, K, V] = ["query", "key", "value"].map(
    (part) => matrices(layers[layer][part].values, layers[layer][part].shape)[head],
  );
  const scores = Q.times(K.transposed());
  const scaled = scores.map((score) => score / Math.sqrt(Q.columns));
  const isHidden = (row, column) => (hides_later && column > row)
    || (reach !== null && Math.abs(row - column) > reach);
  const masked = scaled.map(
    (score, row, column) => (isHidden(row, column) ? -Infinity : score),
  );
  const weights = masked.softmax();
  const result = { Q, K, V, scores, scaled, masked, weights, output: weights.times(V) };
  computed.set(name, result);
  return result;
}

const LINE = 24;
const MAX_WIDTH = 620;
const LETTER = 8.5;  // Approximate width of a letter.
const MIN_WEIGHT = 0.02;
const middle = (i) => LINE * (i + 0.5) + 4;
let edges = [0, 0];  // The x of the start and the end of the lines.
let hovered = null;
let focused = null;
let pinned = null;
let stop = { side: "query", index: 0 };  // The word that the Tab key focuses.
const same = (one, other) => one?.side === other?.side && one?.index === other?.index;
const wordAt = ({ side, index }) =>
  at("lines").querySelector(`[data-side="${side}"][data-index="${index}"]`);

/** Draws the words of both sides, as wide as possible, and a group for the lines. */
function drawWords() {
  const { queries, keys } = data.kinds[state.kind];
  const height = LINE * Math.max(queries.length, keys.length) + 8;
  const width = Math.min(MAX_WIDTH, at("lines").clientWidth || MAX_WIDTH);
  const letters = Math.floor((0.38 * width - 8) / LETTER);
  const room = (tokens) =>
    8 + LETTER * Math.min(letters, Math.max(...tokens.map((token) => token.length)));
  edges = [room(queries) + 8, width - room(keys) - 8];
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "group",
    "aria-label": "Words and lines to the words they attend to",
  });
  svg.append(shape("g"));
  const words = (tokens, side, x, anchor) => tokens.forEach((token, index) => {
    const here = { side, index };
    const isLong = token.length > letters;
    const word = shape("text", {
      x, y: middle(index) + 5, "text-anchor": anchor, class: "token", role: "button",
      tabindex: -1, "data-side": side, "data-index": index,
      ...isLong ? { "aria-label": token } : {},
    }, isLong ? `${token.slice(0, letters - 1)}…` : token);
    if (isLong) word.append(shape("title", {}, token));
    const look = (change) => () => {
      change();
      drawLines();
    };
    word.addEventListener("pointerenter", look(() => { hovered = here; }));
    word.addEventListener("pointerleave", look(() => { hovered = null; }));
    word.addEventListener("focus", look(() => {
      stop = here;
      // A click is handled by its own listener.
      focused = word.matches(":focus-visible") ? here : null;
    }));
    word.addEventListener("blur", look(() => { focused = null; }));
    word.addEventListener("click", () => pin(here));
    word.addEventListener("keydown", (event) => press(event, here));
    svg.append(word);
  });
  words(queries, "query", edges[0] - 8, "end");
  words(keys, "key", edges[1] + 8, "start");
  at("lines").replaceChildren(svg);
  if (!wordAt(stop)) stop = { side: "query", index: 0 };
}

function pin(here) {
  pinned = same(pinned, here) ? null : here;
  choose(here.side === "query" ? { query: here.index } : { key: here.index });
}

/** Moves between words with the arrow keys, Home and End. Enter pins a word. */
function press(event, { side, index }) {
  const { queries, keys } = data.kinds[state.kind];
  const lengths = { query: queries.length, key: keys.length };
  const go = (to, place) => () =>
    wordAt({ side: to, index: Math.max(0, Math.min(place, lengths[to] - 1)) }).focus();
  const toggle = () => pin({ side, index });
  const action = {
    ArrowUp: go(side, index - 1),
    ArrowDown: go(side, index + 1),
    ArrowLeft: go("query", index),
    ArrowRight: go("key", index),
    Home: go(side, 0),
    End: go(side, lengths[side] - 1),
    Enter: toggle,
    " ": toggle,
  }[event.key];
  if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  action();
}

/** Draws the lines of the active heads, of the selected word only if there is one. */
function drawLines() {
  const focus = hovered ?? focused ?? pinned;
  const groups = [];
  for (const head of state.heads) {
    const { weights } = attend(state.kind, state.layer, head);
    const group = shape("g");
    group.style.setProperty("--head", data.colours[head]);
    for (let row = 0; row < weights.rows; row++) {
      if (focus?.side === "query" && focus.index !== row) continue;
      for (let column = 0; column < weights.columns; column++) {
        if (focus?.side === "key" && focus.index !== column) continue;
        const weight = weights.get(row, column);
        if (weight < MIN_WEIGHT) continue;
        group.append(shape("line", {
          x1: edges[0], y1: middle(row), x2: edges[1], y2: middle(column),
          stroke: data.colours[head], "stroke-opacity": weight.toFixed(3),
          "stroke-width": focus ? 3 : 2,
        }));
      }
    }
    groups.push(group);
  }
  at("lines").querySelector("g").replaceChildren(...groups);
  for (const word of at("lines").querySelectorAll(".token")) {
    const here = { side: word.dataset.side, index: Number(word.dataset.index) };
    word.classList.toggle("chosen", same(focus, here));
    word.ariaPressed = String(same(pinned, here));
    word.setAttribute("tabindex", same(stop, here) ? 0 : -1);
  }
  at("lines-text").textContent = focus ? described(focus) : "";
}

/** Describes in text what a word attends to, or is attended to by, most. */
function described({ side, index }) {
  const { queries, keys } = data.kinds[state.kind];
  const others = side === "query" ? keys : queries;
  const heads = [...state.heads].sort((a, b) => a - b);
  const weights = heads.map((head) => others.map((_, other) => {
    const [row, column] = side === "query" ? [index, other] : [other, index];
    return attend(state.kind, state.layer, head).weights.get(row, column);
  }));
  const mean = others.map((_, other) =>
    weights.reduce((sum, one) => sum + one[other], 0) / Math.max(heads.length, 1));
  const ordered = (values) => [...values.keys()].sort((a, b) => values[b] - values[a]);
  const list = ordered(mean).slice(0, 3).map((i) => `${others[i]} ${format(mean[i])}`);
  const token = (side === "query" ? queries : keys)[index];
  const verb = side === "query" ? "attends to" : "is attended to by";
  const text = `${token} ${verb}: ${list.join(", ")} (mean of the heads shown).`;
  // Names the heads for users who cannot tell the colours apart.
  const most = weights.map((one, i) => `${heads[i] + 1} ${others[ordered(one)[0]]}`);
  return heads.length > 1 ? `${text} Most, by head: ${most.join(", ")}.` : text;
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

/** Changes the selection and redraws everything that depends on it. */
function choose(changes) {
  const before = state.kind;
  Object.assign(state, changes);
  const { layers, queries, keys } = data.kinds[state.kind];
  if (state.kind !== before || !at("lines").firstChild) {
    hovered = focused = pinned = null;
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
  button.style.setProperty("--on-head", isLight(colour) ? "#000" : "#fff");
  button.addEventListener("click", (event) => {
    if (event.shiftKey) return choose({ heads: new Set([head]), head });
    const heads = new Set(state.heads);
    if (!heads.delete(head)) heads.add(head);
    return choose({ heads });
  });
  button.addEventListener("dblclick", () => choose({ heads: new Set([head]), head }));
  at("heads").append(button);
});
at("all-heads").addEventListener("click", () => choose({ heads: new Set(data.colours.keys()) }));

at("model").textContent = data.model;
at("source").textContent = data.source;
at("translation").textContent = data.translation;
addEventListener("resize", () => {
  drawWords();
  drawLines();
});
