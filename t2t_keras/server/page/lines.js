// Lines: splits a text of any length into requests that the server accepts.

const FIRST_LINES = 8;  // In the first request, so that results appear soon.
const MAX_LINES = Math.min(64, limits.rows);
// Maximum size of a request's JSON; a single longer line is sent alone.
const MAX_BYTES = Math.min(16384, limits.bytes - 1024);
const MAX_FAILURES = 3;  // Stop after this many consecutive failed lines.
const SHORT = 3;  // Texts of up to this many lines show all alternatives.
// Errors that other lines would not avoid.
const STOPPING = new Set([0, 401, 403, 404, 429, 501, 503]);

/** A text to translate: its lines and the translations so far. */
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
    const queued = this.aligner?.stop() ?? [];
    this.aligner = model.usable.includes("align") ? new Aligner(model) : null;
    this.aligner?.request(queued);
  }

  get done() {
    return Object.keys(this.translations).length;
  }

  /** The translations, one line per line of the text. */
  get text() {
    return this.lines.map((_, number) => this.translations[number] ?? "").join("\n");
  }
}

/** Consecutive untranslated lines, and their card. */
class Gap {
  constructor(job, from, to) {
    Object.assign(this, { job, from, to });
    this.element = element("article", "", "card gap");
    this.element.hidden = true;
  }

  get size() {
    return this.to - this.from;
  }

  /** Shows that the lines were not translated, unless there are none left. */
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

  /** Translates the lines, instead of the current translation. */
  async retry() {
    gap.close();
    gap = this;
    const before = this.element.previousElementSibling;
    await run((signal) => fill(this, signal));
    // The focused button is gone: focus the element in its place.
    if (document.activeElement !== document.body) return;
    const next = before ? before.nextElementSibling : at("results").firstElementChild;
    if (!next) return;
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
  }

  /** Covers the whole text again if none of it was translated. */
  reset() {
    this.from = 0;
    at("results").replaceChildren(this.element);
  }

  /** Shows the translations of the first lines and removes them from the gap. */
  advance(translations) {
    const cards = translations.map(([number, translation]) => {
      this.job.translations[number] = translation.hypotheses[0]?.text ?? "";
      return makeCard(this.job, number, translation);
    });
    this.element.before(...cards);
    this.from += cards.length;
  }

  /** Moves a line that cannot be translated to a gap of its own. */
  skip(reason) {
    const skipped = new Gap(this.job, this.from, this.from + 1);
    this.element.before(skipped.element);
    skipped.close(reason);
    this.from += 1;
  }
}

/** Translates the lines of a gap in order, in requests of adaptive size. */
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
      const isPermanent = !(error instanceof ServerError) || STOPPING.has(error.status);
      if (signal.aborted || isPermanent) throw error;
      // The request may be too large or one line invalid: halve it to find out.
      size = Math.ceil(numbers.length / 2);
      if (numbers.length > 1) continue;
      failures += 1;
      if (failures === MAX_FAILURES || !whole.done && filled.size === 1) throw error;
      filled.skip(error.message);
    }
    whole.milliseconds = performance.now() - started;
  }
  // The version may have changed.
  const now = await describe(whole.model.name, signal);
  if (now.version !== null) whole.versions.add(now.version);
  showModel(now);
  return summary(whole);
}

/** Returns the line numbers of a gap's next request. */
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

/** Requests the hypotheses of lines, or the best ones if the model has no n_best. */
async function hypotheses(job, numbers, signal) {
  const inputs = { text: numbers.map((number) => job.lines[number]) };
  for (;;) {
    const { name, usable, version } = job.model;
    const signature = usable.includes("n_best") ? "n_best" : "serving_default";
    try {
      return await predict(job.model, signature, inputs, signal);
    } catch (error) {
      if (![400, 404].includes(error.status)) throw error;
      // A version with other signatures may have replaced this one.
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
