// Alignment: related words of a text and its translation, by attention.

const MAX_ALIGNED = Math.min(32, limits.rows);  // Rows per request.
const MAX_CELLS = 2e6;  // Rows x source x target characters: the attention matrix.

/** Returns the alignment of one row of the outputs of signature `align`. */
function alignmentOf(found, row) {
  const sourceNumbers = found.source_words[row];
  const targetNumbers = found.target_words[row];
  const logProbs = found.token_scores[row];
  const tokens = targetNumbers.filter((word) => word >= 0).length;
  const sizes = byWord(targetNumbers, targetNumbers.map(() => 1));
  const sourceWords = wordsOf(sourceNumbers, found.source_tokens[row]);
  const perToken = found.attention[row].map((weights) => byWord(sourceNumbers, weights));
  const columns = sourceWords.map((_, source) =>
    byWord(targetNumbers, perToken.map((weights) => weights[source])));
  return {
    sourceWords,
    targetWords: wordsOf(targetNumbers, found.target_tokens[row]),
    probabilities: byWord(targetNumbers, logProbs).map(Math.exp),
    // After the end token there are only zeros.
    meanProbability: Math.exp(logProbs.reduce((a, b) => a + b, 0) / (tokens + 1)),
    /** A target word's attention to a source word, as a share. */
    weight: (target, source) => columns[source][target] / sizes[target],
  };
}

/** Sums the values of each word's tokens: numbers or strings. */
function byWord(numbers, values) {
  const sums = [];
  numbers.forEach((word, index) => {
    if (word < 0) return;  // Padding.
    sums[word] = word in sums ? sums[word] + values[index] : values[index];
  });
  return sums;
}

/** Joins tokens to words, without the markers of SentencePiece and WordPiece. */
function wordsOf(numbers, tokens) {
  const plain = (text) => text.replaceAll("\u2581", " ").replace(/^##(?=.)/, "");
  return byWord(numbers, tokens.map(plain)).map((word) => word.trim());
}

/** Splits a text into words and the text between them; null if a word is missing. */
function splitAt(text, words) {
  const parts = [];
  let end = 0;
  for (const word of words) {
    const start = text.indexOf(word, end);
    if (start < 0 || text.slice(end, start).trim()) return null;
    parts.push(text.slice(end, start), word);
    end = start + word.length;
  }
  return [...parts, text.slice(end)];
}

/** Splits a text into its words, or into the words of its tokens if they differ. */
function partsOf(text, words) {
  const bySpace = text.trim().split(/\s+/);
  const same = bySpace.length === words.length ? bySpace : words;
  return splitAt(text, words) ?? splitAt(text, same) ?? splitAt(words.join(" "), words);
}

/** Requests alignments on demand: many per request, one request at a time. */
class Aligner {
  #queued = new Set();
  #controller = new AbortController();
  #isWorking = false;

  constructor(model) {
    this.model = model;
  }

  /** Queues hypotheses that have no alignment yet. */
  request(hypotheses) {
    for (const one of hypotheses) if (one.text && !one.alignment) this.#queued.add(one);
    if (!this.#isWorking) this.#work(this.#controller.signal);
  }

  /** Stops, and returns the hypotheses still without an alignment. */
  stop() {
    this.#controller.abort();
    return this.#queued;
  }

  async #work(signal) {
    this.#isWorking = true;
    await null;  // Collects the hypotheses that come into view at the same time.
    while (this.#queued.size && !signal.aborted) {
      const rows = this.#next();
      await this.#align(rows, signal);
      if (!signal.aborted) rows.forEach((one) => this.#queued.delete(one));
    }
    this.#isWorking = false;
  }

  /** Returns the queued hypotheses of the next request. */
  #next() {
    const rows = [];
    let [source, target] = [0, 0];
    for (const one of this.#queued) {
      source = Math.max(source, one.card.rows[0].text.length);
      target = Math.max(target, one.text.length);
      const isTooLarge = (rows.length + 1) * source * target > MAX_CELLS;
      if (rows.length === MAX_ALIGNED || rows.length && isTooLarge) break;
      rows.push(one);
    }
    return rows;
  }

  async #align(rows, signal) {
    const inputs = {
      text: rows.map(({ card }) => card.rows[0].text),
      translation: rows.map(({ text }) => text),
    };
    try {
      const found = await predict(this.model, "align", inputs, signal);
      rows.forEach((one, row) => showAlignment(one, alignmentOf(found, row)));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ServerError)) throw error;
      if (rows.length > 1 && !STOPPING.has(error.status)) {
        // The request may be too large or one row invalid: halve it.
        const half = Math.ceil(rows.length / 2);
        await this.#align(rows.slice(0, half), signal);
        await this.#align(rows.slice(half), signal);
        return;
      }
      rows.forEach((one) => showUnaligned(one, error));
      if (error.status === 401) showError(error, () => this.request(rows));
    }
  }
}
