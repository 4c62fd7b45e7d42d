// Lines: a text of any length, translated in requests that the server accepts.

const FIRST_LINES = 8;  // Of the first request, so that something is shown soon.
const MAX_LINES = Math.min(64, limits.rows);
// Of JSON; a single line may be longer.
const MAX_BYTES = Math.min(16384, limits.bytes - 1024);
const MAX_FAILURES = 3;  // Lines in a row, after which the others are not tried.
const SHORT = 3;  // Lines whose alternatives are shown from the start.
// What will not be better with other lines.
const STOPPING = new Set([0, 401, 403, 404, 429, 501, 503]);

/** A text to translate: its lines, and the translations there are. */
class Job {
  constructor(lines, model) {
    Object.assign(this, { lines, translations: [], versions: new Set(), milliseconds: 0 });
    this.numbers = [...lines.keys()].filter((number) => lines[number]);
    this.isShort = this.numbers.length <= SHORT;
    this.use(model);
  }

  use(model) {
    this.model = model;
    this.versions.add(model.version);
    const wanted = this.aligner?.stop() ?? [];
    this.aligner = model.usable.includes("align") ? new Aligner(model) : null;
    this.aligner?.want(wanted);
  }

  get done() {
    return Object.keys(this.translations).length;
  }

  /** The translations, a line for each line of the text. */
  get text() {
    return this.lines.map((_, number) => this.translations[number] ?? "").join("\n");
  }
}

/** Lines that follow each other and are not translated, and the card that says so. */
class Gap {
  constructor(job, from, to) {
    Object.assign(this, { job, from, to });
    this.element = element("article", "", "card gap");
    this.element.hidden = true;
  }

  get size() {
    return this.to - this.from;
  }

  /** Shows that nobody is at work on these lines any more, unless there are none. */
  close(reason = "") {
    if (!this.size) return this.element.remove();
    const { job: { numbers }, from, to } = this;
    const [first, last] = [numbers[from] + 1, numbers[to - 1] + 1];
    const [lines, are] = first === last
      ? [`Line ${first}`, "is"] : [`Lines ${first} to ${last}`, "are"];
    const again = quietButton(`Translate ${lines.toLowerCase()}`, "", () => this.retry());
    const text = element("p", `${lines} ${are} not translated. ${reason}`);
    this.element.replaceChildren(text, again);
    this.element.hidden = false;
  }

  /** Translates its lines, in the place of what is under way. */
  async retry() {
    gap.close();
    gap = this;
    const before = this.element.previousElementSibling;
    await run((signal) => fill(this, signal));
    // The button that had the focus is gone: what is in its place gets it.
    if (document.activeElement !== document.body) return;
    const next = before ? before.nextElementSibling : at("results").firstElementChild;
    if (!next) return;
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
  }

  /** Is all of the text again, when none of it was translated. */
  reset() {
    this.from = 0;
    at("results").replaceChildren(this.element);
  }

  /** Shows the translations of its first lines, and is that much smaller. */
  advance(translations) {
    const cards = translations.map(([number, translation]) => {
      this.job.translations[number] = translation.hypotheses[0]?.text ?? "";
      return makeCard(this.job, number, translation);
    });
    this.element.before(...cards);
    this.from += cards.length;
  }

  /** Puts lines that cannot be translated aside, into a gap of their own before this. */
  skip(reason) {
    const skipped = new Gap(this.job, this.from, this.from + 1);
    this.element.before(skipped.element);
    skipped.close(reason);
    this.from += 1;
  }
}

/** Translates the lines of a gap in their order, as many at a time as is accepted. */
async function fill(filled, signal) {
  const { job: whole, size: total } = filled;
  const started = performance.now() - whole.milliseconds;
  filled.element.hidden = true;
  let size = Math.min(FIRST_LINES, MAX_LINES);
  let failures = 0;
  while (filled.size) {
    showProgress(total - filled.size, total);
    const numbers = part(whole, filled, size);
    try {
      const found = await hypotheses(whole, numbers, signal);
      filled.advance(numbers.map((number, row) => [number, translationOf(found, row)]));
      size = Math.min(2 * size, MAX_LINES);
      failures = 0;
    } catch (error) {
      const isLasting = !(error instanceof ServerError) || STOPPING.has(error.status);
      if (signal.aborted || isLasting) throw error;
      // Too much at once, perhaps, or one line is wrong: which one shows by halves.
      size = Math.ceil(numbers.length / 2);
      if (numbers.length > 1) continue;
      failures += 1;
      if (failures === MAX_FAILURES || !whole.done && filled.size === 1) throw error;
      filled.skip(error.message);
    }
    whole.milliseconds = performance.now() - started;
  }
  // It may have changed.
  const now = await describe(whole.model.name, signal);
  if (now.version !== null) whole.versions.add(now.version);
  showModel(now);
  return summary(whole);
}

/** Returns the numbers of the lines that a gap's next request has. */
function part(job, { from, to }, size) {
  const numbers = job.numbers.slice(from, Math.min(to, from + size));
  const encoder = new TextEncoder();
  let bytes = 0;
  const end = numbers.findIndex((number) => {
    bytes += encoder.encode(JSON.stringify(job.lines[number])).length + 1;
    return bytes > MAX_BYTES;
  });
  return end < 0 ? numbers : numbers.slice(0, Math.max(1, end));
}

/** Asks for the hypotheses of lines, or for the best alone where a model has no more. */
async function hypotheses(job, numbers, signal) {
  const inputs = { text: numbers.map((number) => job.lines[number]) };
  for (;;) {
    const { name, usable, version } = job.model;
    const signature = usable.includes("n_best") ? "n_best" : "serving_default";
    try {
      return await predict(job.model, signature, inputs, signal);
    } catch (error) {
      if (![400, 404].includes(error.status)) throw error;
      // Another version may answer by now, with other signatures.
      known.delete(name);
      const now = await describe(name, signal);
      const isSame = now.version === version && now.usable.join() === usable.join();
      if (now.problem || isSame) throw error;
      job.use(now);
    }
  }
}

function showProgress(done, total) {
  at("bar").value = done;
  at("bar").max = total;
  const isShown = total > FIRST_LINES;
  at("bar").classList.toggle("idle", !isShown);
  at("done").textContent = isShown
    ? `${done.toLocaleString("en")} of ${total.toLocaleString("en")} lines` : "";
}
