// Alignment: which words of a text and its translation belong together, by attention.

const MAX_ALIGNED = Math.min(32, limits.rows);  // Rows of a request.
const MAX_CELLS = 2e6;  // Rows times characters times characters: answers are square.

/** Returns the alignment of one row of what the signature `align` answers. */
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
    // Behind the end token there are zeros only.
    meanProbability: Math.exp(logProbs.reduce((a, b) => a + b, 0) / (tokens + 1)),
    /** The part of a target word's attention that a source word has. */
    weight: (target, source) => columns[source][target] / sizes[target],
  };
}

/** Adds the values of each word's tokens: numbers, or strings. */
function byWord(numbers, values) {
  const sums = [];
  numbers.forEach((word, place) => {
    if (word < 0) return;  // Padding.
    sums[word] = word in sums ? sums[word] + values[place] : values[place];
  });
  return sums;
}

/** Joins tokens to words, without the signs of SentencePiece and of word pieces. */
function wordsOf(numbers, tokens) {
  const plain = (text) => text.replaceAll("\u2581", " ").replace(/^##(?=.)/, "");
  return byWord(numbers, tokens.map(plain)).map((word) => word.trim());
}

/** Divides a text into its words and what is between; null if they are not in it. */
function divide(text, words) {
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

/** Divides a text by its words, or else shows the words that its tokens make. */
function partsOf(text, words) {
  const bySpace = text.trim().split(/\s+/);
  const same = bySpace.length === words.length ? bySpace : words;
  return divide(text, words) ?? divide(text, same) ?? divide(words.join(" "), words);
}

/** Asks for alignments as they are wanted: many in a request, one request at a time. */
class Aligner {
  #wanted = new Set();
  #controller = new AbortController();
  #isWorking = false;

  constructor(model) {
    this.model = model;
  }

  /** Wants the alignment of hypotheses that have none yet. */
  want(hypotheses) {
    for (const one of hypotheses) if (one.text && !one.alignment) this.#wanted.add(one);
    if (!this.#isWorking) this.#work(this.#controller.signal);
  }

  /** Returns those that were wanted and have none. */
  stop() {
    this.#controller.abort();
    return this.#wanted;
  }

  async #work(signal) {
    this.#isWorking = true;
    await null;  // All that come into view at once are asked for at once.
    while (this.#wanted.size && !signal.aborted) {
      const rows = this.#next();
      await this.#align(rows, signal);
      if (!signal.aborted) rows.forEach((one) => this.#wanted.delete(one));
    }
    this.#isWorking = false;
  }

  /** Returns what the next request may have of what is wanted. */
  #next() {
    const rows = [];
    let [source, target] = [0, 0];
    for (const one of this.#wanted) {
      source = Math.max(source, one.card.rows[0].text.length);
      target = Math.max(target, one.text.length);
      const isTooMuch = (rows.length + 1) * source * target > MAX_CELLS;
      if (rows.length === MAX_ALIGNED || rows.length && isTooMuch) break;
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
        // Too long, perhaps, or one of them is wrong.
        const half = Math.ceil(rows.length / 2);
        await this.#align(rows.slice(0, half), signal);
        await this.#align(rows.slice(half), signal);
        return;
      }
      rows.forEach((one) => showUnaligned(one, error));
      if (error.status === 401) showError(error, () => this.want(rows));
    }
  }
}
