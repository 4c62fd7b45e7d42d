// Cards: a line of the text with its translation and alternatives, and copying.

const NO_HYPOTHESIS = -1e8;
const STATUS = {
  empty: "There is nothing to translate in this line.",
  too_long: "The line was truncated to the model's maximum input length.",
  invalid_utf8: "Not translated: the text is not valid Unicode.",
  model_error: "Not translated: the model is broken; it computed non-finite values.",
  not_found: "Not translated: no output meets the constraints of the search.",
};
const TRANSLATED = ["ok", "too_long"];

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

/** Creates a paragraph of a user's or a model's text, which may be right-to-left. */
function textElement(text, className, language) {
  const made = element("p", text, className);
  made.dir = "auto";
  made.lang = language ?? "";
  return made;
}

/** Creates a secondary button. */
function quietButton(text, label, action) {
  const made = element("button", text, "quiet");
  made.type = "button";
  if (label) made.ariaLabel = label;
  made.addEventListener("click", action);
  return made;
}

/** Extracts the status and the existing hypotheses of a line from the outputs. */
function translationOf(found, row) {
  const status = found.status?.[row] ?? "ok";
  const texts = [found.translations?.[row] ?? found.translation[row]].flat();
  const scores = [found.scores?.[row] ?? found.score?.[row]].flat();
  const hypotheses = texts
    .map((text, rank) => ({ text, score: scores[rank] }))
    .filter(({ text, score }) =>
      !(score <= NO_HYPOTHESIS) && (text || TRANSLATED.includes(status)));
  return { status, hypotheses };
}

/** Creates the card of a line; its alignment is requested when it comes into view. */
function makeCard(job, number, { status, hypotheses }) {
  const [sourceLanguage, targetLanguage] = job.model.languages;
  const article = element("article", "", "card pair");
  article.ariaLabel = `Line ${number + 1}`;
  const card = {};
  const source = { card, spans: [], text: job.lines[number] };
  source.element = textElement(source.text, "source", sourceLanguage);
  const rows = hypotheses.map(({ text, score }, rank) => {
    const row = { card, spans: [], text, score };
    const className = rank ? "alternative" : "best";
    row.element = textElement(text || "(no translation)", className, text ? targetLanguage : "en");
    row.block = hypothesisBlock(row, rank);
    return row;
  });
  card.rows = [source, ...rows];
  const [best, ...others] = rows;
  const target = element("div", "", "target");
  if (best) target.append(best.block);
  else target.append(textElement("(no translation)", "best", "en"));
  if (status !== "ok") {
    target.append(element("p", STATUS[status] ?? `Status: ${status}`, "muted"));
  }
  article.append(source.element, target);
  if (others.length) {
    target.append(alternatives(others, job.isShort, () => job.aligner?.request(others)));
  }
  if (best) inView.set(article, () => job.aligner?.request([best]));
  if (best) viewer.observe(article);
  return article;
}

/** Creates a hypothesis with its figures and a copy button. */
function hypothesisBlock(row, rank) {
  const block = element("div", "", "hypothesis");
  const facts = element("div", "", "facts muted");
  row.figures = element("span", figures(row), "figures");
  row.facts = facts;
  row.name = rank ? `translation ${rank + 1}` : "translation";
  facts.append(row.figures);
  if (row.text) facts.append(quietButton("Copy", `Copy ${row.name}`, () => copy(row.text)));
  block.append(row.element, facts);
  return block;
}

function figures({ score, alignment }) {
  const parts = Number.isFinite(score) ? [`Score ${score.toFixed(3)}`] : [];
  if (alignment && Number.isFinite(alignment.meanProbability)) {
    parts.push(`${percent(alignment.meanProbability)} per token`);
  }
  return parts.join(" · ");
}

function alternatives(rows, isOpen, onOpen) {
  const made = element("details", "", "alternatives");
  const list = element("ol");
  list.start = 2;
  for (const { block } of rows) {
    const item = element("li");
    item.append(block);
    list.append(item);
  }
  const number = rows.length === 1 ? "1 alternative" : `${rows.length} alternatives`;
  made.append(element("summary", number), list);
  made.addEventListener("toggle", () => made.open && onOpen());
  made.open = isOpen;
  return made;
}

/** Splits a hypothesis and its source into words that show their relations. */
function showAlignment(row, alignment) {
  const { card } = row;
  const [source] = card.rows;
  row.alignment = alignment;
  if (!source.spans.length) showWords(source, alignment.sourceWords);
  showWords(row, alignment.targetWords);
  const isBest = row === card.rows[1] && document.activeElement !== card.stop;
  const first = row.spans.find((span) => span.textContent);
  if (first && (isBest || !card.stop)) setStop(card, first);
  row.figures.textContent = figures(row);
  row.facts.querySelector(".unaligned")?.remove();
  if (row.spans.length) row.facts.append(wordsButton(row));
}

function showUnaligned({ facts }, error) {
  facts.querySelector(".unaligned")?.remove();
  facts.append(element("span", `No word alignment: ${error.message}`, "unaligned"));
}

/** Creates a button that shows a hypothesis word by word, as a table. */
function wordsButton(row) {
  let table = null;
  const button = quietButton("Words", `Words of ${row.name}`, () => {
    table ??= wordTable(row);
    if (table.isConnected) table.remove();
    else row.block.append(table);
    button.ariaExpanded = String(table.isConnected);
  });
  button.ariaExpanded = "false";
  return button;
}

function wordTable(row) {
  const table = element("table");
  table.createCaption().textContent = "Word by word";
  const head = table.createTHead().insertRow();
  for (const title of ["Word", "Probability", "Attends to"]) {
    const cell = element("th", title);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  row.spans.forEach((span, index) => {
    const line = body.insertRow();
    const word = element("th", span.textContent);
    word.scope = "row";
    word.dir = "auto";
    const others = attended({ row, index }).flatMap((one, i) => i ? [", ", ...one] : one);
    line.append(word, element("td", percent(row.alignment.probabilities[index])));
    line.insertCell().append(...others.length ? others : ["no word in particular"]);
  });
  return table;
}

const inView = new WeakMap();  // Card elements, to the action when they come into view.
const viewer = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) inView.get(target)();
}, { rootMargin: "200px" });

/** Copies a text, even without the clipboard API, which needs a secure context. */
async function copy(translation) {
  let isCopied = false;
  try {
    await navigator.clipboard.writeText(translation);
    isCopied = true;
  } catch {
    isCopied = copyBySelection(translation);  // No clipboard API or no permission.
  }
  const text = isCopied ? "Copied." : "The browser does not allow this page to copy.";
  notify(text);
  setTimeout(() => at("notice").textContent === text && notify(), 4000);
}

function copyBySelection(text) {
  const focused = document.activeElement;
  const area = element("textarea", "", "hidden-copy");
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isCopied;
}

/** Shows a short notice at the bottom of the window, also to screen readers. */
function notify(...nodes) {
  at("notice").replaceChildren(...nodes);
}
