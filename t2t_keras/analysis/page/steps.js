// Scaled dot-product attention of one head, step by step.

function drawSteps() {
  const { title, queries, keys, hides_later, reach } = data.kinds[state.kind];
  const { Q, K, V, scores, scaled, masked, weights, output } = attend(
    state.kind, state.layer, state.head,
  );
  const { query, key } = state;
  at("head").value = state.head;
  for (const [id, tokens, value] of [["query", queries, query], ["key", keys, key]]) {
    at(id).replaceChildren(...tokens.map((token, i) => option(`${i + 1} ${token}`, i)));
    at(id).value = value;
  }
  at("steps-of").textContent = `${title}, layer ${state.layer + 1}`;
  const [queryWord, keyWord] = [queries[query], keys[key]];
  const thin = [Math.max(2, Math.min(6, Math.floor(360 / Q.columns))), 14];
  const square = (name, matrix, more = {}) => heatmap(name, matrix, {
    rowLabels: queries, columnLabels: keys, chosen: { row: query, column: key },
    pick: (row, column) => choose({ query: row, key: column }), ...more,
  });
  const rows = (name, matrix, labels, row, pick) => heatmap(name, matrix, {
    rowLabels: labels, chosen: { row }, cell: thin, pick,
  });
  const pickQuery = (row) => choose({ query: row });
  const pickKey = (row) => choose({ key: row });
  const score = scores.get(query, key);
  const isHidden = masked.get(query, key) === -Infinity;
  const isMasked = hides_later || reach !== null;
  const seen = keys.filter((_, i) => masked.get(query, i) !== -Infinity).length;
  const visible = (hides_later ? "itself and the words before it" : "all words")
    + (reach === null ? "" : ` that are at most ${reach} away`);
  const strongest = [...keys.keys()]
    .sort((a, b) => weights.get(query, b) - weights.get(query, a))
    .slice(0, 3)
    .map((i) => `${format(weights.get(query, i))} · v(${keys[i]})`);

  const steps = [
    ["Queries and keys",
      `Each query word has a row of Q and each key word a row of K. Both have d_k = ${Q.columns} numbers, computed from the word vector by learned matrices.`,
      [rows("Q", Q, queries, query, pickQuery), rows("K", K, keys, key, pickKey)]],
    ["Q Kᵀ: similarity of queries and keys",
      `q(${queryWord}) · k(${keyWord}) = ${format(score)}: the sum of ${Q.columns} products.`,
      [square("Q Kᵀ", scores)]],
    ["Scaling by 1/√d_k",
      `${format(score)} / √${Q.columns} = ${format(scaled.get(query, key))}. Without scaling, a large d_k leads to large scores, for which the softmax has very small gradients (section 3.2.1).`,
      [square("Q Kᵀ / √d_k", scaled)]],
    ["Mask",
      isMasked
        ? `A word sees ${visible}. Scores of ${reach === null ? "later" : "other"} words (grey) are set to −∞. ${queryWord} sees ${seen} of ${keys.length}${isHidden ? `, and ${keyWord} is not among them` : ""}.`
        : "This attention has no mask, because the whole source is known. (In a batch, padding is masked.)",
      isMasked ? [square("masked", masked)] : []],
    ["Softmax: scores become weights",
      isHidden
        ? `exp(−∞) = 0: ${queryWord} does not attend to ${keyWord}.`
        : `exp(${format(masked.get(query, key))}) divided by the sum of the ${seen} exponentials of the row = ${format(weights.get(query, key))}. Each row sums to 1.`,
      [square("weights", weights, { colour: oneSided, maximum: 1 })]],
    ["Weighted sum of the values",
      `output(${queryWord}) = ${strongest.join(" + ")} + …`,
      [rows("V", V, keys, key, pickKey), rows("output", output, queries, query, pickQuery)]],
  ];
  at("step-list").replaceChildren(...steps.map(([name, text, figures]) => element(
    "li", {},
    element("h3", { textContent: name }),
    element("p", { className: "numbers", textContent: text }),
    element("div", { className: "matrices wide" }, ...figures),
  )));
  for (const box of at("step-list").querySelectorAll(".matrices")) letScroll("Matrices", box);
}

at("head").append(...data.colours.map((_, head) => option(String(head + 1), head)));
for (const id of ["head", "query", "key"]) {
  at(id).addEventListener("change", () => choose({ [id]: Number(at(id).value) }));
}
choose({});
