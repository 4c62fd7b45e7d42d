// Words: pointing at one, or moving to it by keys, shows those that belong to it.

const RELATED = 0.1;  // The least weight that counts as a relation.
const places = new WeakMap();  // Of a word's element: its card, row and number.
let marked = [];

/** Shows a row's text as words; the first row to have any gets the card's tab stop. */
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

/** Makes one word of a card the one that Tab goes to. */
function setStop(card, span) {
  if (card.stop) card.stop.tabIndex = -1;
  card.stop = span;
  span.tabIndex = 0;
}

/** Returns the words on the other side, each with its share of the attention. */
function relations({ row, index }) {
  const [source, ...hypotheses] = row.card.rows;
  if (row !== source) {
    return source.spans.map((span, i) => ({ span, weight: row.alignment.weight(index, i) }));
  }
  return hypotheses.filter(({ alignment }) => alignment).flatMap(({ alignment, spans }) =>
    spans.map((span, i) => ({ span, weight: alignment.weight(i, index) })));
}

/** Marks a word and what belongs to it, or nothing. */
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
    const most = Math.max(...inRow.map(({ weight }) => weight));
    for (const { span: other, weight } of inRow) {
      other.style.setProperty("--weight", weight);
      other.classList.toggle("related", weight >= RELATED);
      other.classList.toggle("strongest", weight >= RELATED && weight === most);
      marked.push(other);
    }
  }
}

const percent = (share) => `${(100 * share).toFixed(0)}%`;

/** Returns what a word attends to, or is attended to by in the best translation. */
function attended({ row, index }) {
  const best = row.card.rows[1];
  return relations({ row, index })
    .filter(({ span, weight }) =>
      weight >= RELATED && (row !== row.card.rows[0] || places.get(span).row === best))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, 3)
    .map(({ span, weight }) => [element("bdi", span.textContent), ` ${percent(weight)}`]);
}

/** Says in words what the marks of a word show. */
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

/** Shows what belongs to the word that is pointed at, or else to the focused one. */
function highlight({ type, target }) {
  const isOver = type === "pointerover" || type === "focusin";
  const span = [isOver && target, document.activeElement].find((one) => places.has(one));
  mark(span);
  if (span) {
    // Where it does not hide the word.
    const isLow = span.getBoundingClientRect().bottom > window.innerHeight - 96;
    at("notice").classList.toggle("above", isLow);
    tell(...description(span));
  }
  else if (places.has(target)) tell();
}

/** Moves by arrow keys, Home and End: along a text, and from one text to another. */
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
  if (places.has(target)) target.focus();  // Not every touch screen's browser does.
});
at("results").addEventListener("keydown", move);
