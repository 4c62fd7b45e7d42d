// Scaled dot-product attention in steps, with the numbers of one head.

function drawSteps() {
  const { title, queries, keys, hides_later } = data.kinds[state.kind];
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
  const [asks, answers] = [queries[query], keys[key]];
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
  const seen = hides_later ? query + 1 : keys.length;
  const strongest = [...keys.keys()]
    .sort((a, b) => weights.get(query, b) - weights.get(query, a))
    .slice(0, 3)
    .map((i) => `${format(weights.get(query, i))} · v(${keys[i]})`);

  const steps = [
    ["Queries and keys",
      `Each word that attends asks with its row of Q, each word attended to answers with its row of K; both have d_k = ${Q.columns} numbers, made from the word's vector by learned matrices.`,
      [rows("Q", Q, queries, query, pickQuery), rows("K", K, keys, key, pickKey)]],
    ["Q Kᵀ: how well they fit",
      `q(${asks}) · k(${answers}) = ${format(score)}: the sum of ${Q.columns} products.`,
      [square("Q Kᵀ", scores)]],
    ["Scaling by 1/√d_k",
      `${format(score)} / √${Q.columns} = ${format(scaled.get(query, key))}. Without it, long vectors would give scores so large that the softmax hardly learns (section 3.2.1).`,
      [square("Q Kᵀ / √d_k", scaled)]],
    ["Mask",
      hides_later
        ? `A word sees itself and those before it: what comes later (grey) is set to −∞. ${asks} sees ${seen} of ${keys.length}${isHidden ? `, and ${answers} is not among them` : ""}.`
        : "Nothing is hidden in this attention: the whole source is known. (In a batch, padding is.)",
      hides_later ? [square("masked", masked)] : []],
    ["Softmax: scores become weights",
      isHidden
        ? `exp(−∞) = 0: ${asks} does not attend to ${answers}.`
        : `exp(${format(masked.get(query, key))}) over the sum of the row's ${seen} exponentials = ${format(weights.get(query, key))}. Each row sums to 1.`,
      [square("weights", weights, { colour: oneSided, most: 1 })]],
    ["Weighted sum of the values",
      `output(${asks}) = ${strongest.join(" + ")} + …`,
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
