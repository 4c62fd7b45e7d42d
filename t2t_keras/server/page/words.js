// Words: pointing at a word, or moving to it by keys, highlights the related words.

const RELATED = 0.1;  // Minimum weight of a relation.
const places = new WeakMap();  // Word elements, to their row and index.
let marked = [];

/** Shows a row's text as words. */
function showWords(row, words) {
  const nodes = partsOf(row.text, words)
    .map((part, i) => i % 2 ? element("span", part, "word") : part);
  row.element.replaceChildren(...nodes);
  row.spans = nodes.filter((_, i) => i % 2);
  row.spans.forEach((span, index) => {
    span.tabIndex = -1;
    places.set(span, { row, index });
  });
}

/** Sets the word of a card that Tab moves to. */
function setStop(card, span) {
  if (card.stop) card.stop.tabIndex = -1;
  card.stop = span;
  span.tabIndex = 0;
}

/** Returns the words of the other side, each with its share of the attention. */
function relations({ row, index }) {
  const [source, ...hypotheses] = row.card.rows;
  if (row !== source) {
    return source.spans.map((span, i) => ({ span, weight: row.alignment.weight(index, i) }));
  }
  return hypotheses.filter(({ alignment }) => alignment).flatMap(({ alignment, spans }) =>
    spans.map((span, i) => ({ span, weight: alignment.weight(i, index) })));
}

/** Highlights a word and its related words, or clears the highlights. */
function mark(span) {
  for (const one of marked) {
    one.classList.remove("chosen", "related", "strongest");
    one.style.removeProperty("--weight");
  }
  marked = [];
  const place = places.get(span);
  if (!place) return;
  span.classList.add("chosen");
  marked.push(span);
  const others = relations(place);
  for (const row of new Set(others.map((other) => places.get(other.span).row))) {
    const inRow = others.filter((other) => places.get(other.span).row === row);
    const maximum = Math.max(...inRow.map(({ weight }) => weight));
    for (const { span: other, weight } of inRow) {
      other.style.setProperty("--weight", weight);
      other.classList.toggle("related", weight >= RELATED);
      other.classList.toggle("strongest", weight >= RELATED && weight === maximum);
      marked.push(other);
    }
  }
}

const percent = (share) => `${(100 * share).toFixed(0)}%`;

/** Returns the words that a word attends to, or that attend to it in the best one. */
function attended({ row, index }) {
  const best = row.card.rows[1];
  return relations({ row, index })
    .filter(({ span, weight }) =>
      weight >= RELATED && (row !== row.card.rows[0] || places.get(span).row === best))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, 3)
    .map(({ span, weight }) => [element("bdi", span.textContent), ` ${percent(weight)}`]);
}

/** Describes in words what the highlights of a word show. */
function description(span) {
  const place = places.get(span);
  const isSource = place.row === place.row.card.rows[0];
  const others = attended(place).flatMap((one, i) => i ? [", ", ...one] : one);
  const verb = isSource ? " is attended to by " : " attends to ";
  const none = isSource ? "no word in particular" : "no word of the source in particular";
  const parts = [element("bdi", span.textContent, "term"), verb,
    ...others.length ? others : [none]];
  if (isSource) return [...parts, "."];
  const probability = percent(place.row.alignment.probabilities[place.index]);
  return [...parts, `. Probability ${probability}.`];
}

/** Highlights the word pointed at, or else the focused word. */
function highlight({ type, target }) {
  const isOver = type === "pointerover" || type === "focusin";
  const span = [isOver && target, document.activeElement].find((one) => places.has(one));
  mark(span);
  if (span) {
    // Keeps the notice from covering the word.
    const isLow = span.getBoundingClientRect().bottom > window.innerHeight - 96;
    at("notice").classList.toggle("above", isLow);
    notify(...description(span));
  }
  else if (places.has(target)) notify();
}

/** Moves by arrow keys, Home and End: within a text and between texts. */
function move(event) {
  const place = places.get(event.target);
  if (!place || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  const { row, index } = place;
  const readable = ({ spans }) => spans.filter((span) => span.textContent);
  const along = readable(row);
  const rows = row.card.rows.filter(
    (one) => readable(one).length && one.element.offsetParent);
  const forward = getComputedStyle(row.element).direction === "rtl" ? -1 : 1;
  const now = along.indexOf(event.target);
  const to = (next) => {
    const words = readable(rows[next] ?? row);
    return words[Math.min(index, words.length - 1)];
  };
  const goal = {
    ArrowRight: () => along[now + forward],
    ArrowLeft: () => along[now - forward],
    ArrowDown: () => to(rows.indexOf(row) + 1),
    ArrowUp: () => to(rows.indexOf(row) - 1),
    Home: () => along[0],
    End: () => along.at(-1),
    Escape: () => null,
  }[event.key];
  if (!goal) return;
  event.preventDefault();
  const span = goal();
  if (span === null) event.target.blur();
  else span?.focus();
}

for (const type of ["pointerover", "pointerout", "focusin", "focusout"]) {
  at("results").addEventListener(type, highlight);
}
at("results").addEventListener("focusin", ({ target }) => {
  if (places.has(target)) setStop(places.get(target).row.card, target);
});
at("results").addEventListener("click", ({ target }) => {
  if (places.has(target)) target.focus();  // Not all touch browsers focus it.
});
at("results").addEventListener("keydown", move);
