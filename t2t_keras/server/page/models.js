// The models: the selected one, its version and its signatures.

/** The signatures that the page uses: their string inputs and their outputs. */
const NEEDED = {
  n_best: { inputs: ["text"], outputs: ["translations"] },
  serving_default: { inputs: ["text"], outputs: ["translation"] },
  align: {
    inputs: ["text", "translation"],
    outputs: [
      "source_tokens", "source_words", "target_tokens", "target_words", "token_scores",
      "attention",
    ],
  },
};
const EXAMPLE = "The house is small.";

const known = new Map();  // Latest description of each model.

/** Returns the description of a model; `problem` is why it cannot translate. */
async function describe(name, signal) {
  const { version, reason } = await newestVersion(name, signal);
  if (version === null) {
    return { name, version, problem: `No version of ${name} is available: ${reason}` };
  }
  if (known.get(name)?.version === version) return known.get(name);
  const { metadata } = await ask(`${modelUrl(name)}/metadata`, signal);
  const signatures = metadata.signature_def.signature_def;
  const usable = Object.keys(NEEDED).filter((key) => fits(signatures[key], NEEDED[key]));
  const translates = usable.includes("n_best") || usable.includes("serving_default");
  const about = await ask(`${modelUrl(name)}/about`, signal);
  const model = {
    name, version, signatures, usable, problem: translates ? "" : lack(signatures),
    languages: [about.source_lang, about.target_lang], examples: about.examples,
  };
  known.set(name, model);
  return model;
}

/** Returns the newest available version; or null and the reason. */
async function newestVersion(name, signal) {
  try {
    const { model_version_status: all } = await ask(modelUrl(name), signal);
    const newest = all.sort((a, b) => b.version - a.version);
    const served = newest.find(({ state }) => state === "AVAILABLE");
    const reason = newest[0]?.status?.error_message || newest[0]?.state || "none found";
    return { version: served?.version ?? null, reason };
  } catch (error) {
    if (error.status !== 404) throw error;
    return { version: null, reason: error.detail };
  }
}

function fits(signature, { inputs, outputs }) {
  const isText = ({ dtype, tensor_shape: shape }) =>
    dtype === "DT_STRING" && (shape.unknown_rank || shape.dim.length === 1);
  return signature !== undefined
    && Object.keys(signature.inputs).sort().join() === inputs.join()
    && Object.values(signature.inputs).every(isText)
    && outputs.every((name) => name in signature.outputs);
}

/** Describes the signatures that a model lacks, and those it has. */
function lack(signatures) {
  const described = Object.entries(signatures)
    .filter(([name]) => !name.startsWith("__"))
    .map(([name, { inputs, outputs }]) => {
      const list = Object.entries(inputs).map(([key, { dtype, tensor_shape: shape }]) => {
        const sizes = (shape.dim ?? []).map(({ size }) => size === "-1" ? "any" : size);
        const shown = shape.unknown_rank ? "of any shape" : `[${sizes.join(", ")}]`;
        return `${key}: ${dtype.replace("DT_", "").toLowerCase()} ${shown}`;
      });
      return `${name} (${list.join(", ")} → ${Object.keys(outputs).join(", ")})`;
    });
  return "This model cannot be used on this page, which needs the signature n_best "
    + "(text: string [any] → translations) or serving_default (text: string [any] → "
    + `translation). The model has: ${described.join("; ") || "no signature"}.`;
}

/** Lists the models and selects the first that translates, or else the first. */
async function loadModels(signal) {
  const { models } = await ask("v1/models", signal);
  if (!models.length) throw new ServerError(0, "The server has no model.");
  let first = models[0];
  for (const name of models) {
    if ((await describe(name, signal)).problem) continue;
    first = name;
    break;
  }
  at("model").replaceChildren(...models.map((name) => new Option(name)));
  at("model").value = first;
  at("model-name").textContent = first;
  at("model").hidden = at("model-label").hidden = models.length === 1;
  at("model-name").hidden = models.length > 1;
}

/** Shows the version of a model if it is still selected. */
function showModel({ name, version, languages = [] }) {
  if (at("model").value !== name) return;
  at("version").textContent = version === null ? "No version is available" : `Version ${version}`;
  const [source, target] = languages;
  at("languages").textContent =
    source && target ? `${languageName(source)} → ${languageName(target)}` : "";
  at("text").lang = source ?? "";
}

function languageName(code) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code.replace("_", "-"));
  } catch {
    return code;  // A corpus may use any name for its languages.
  }
}
