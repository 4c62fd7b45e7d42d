// The page: the user's actions.

const TRANSLATING = "Translating…";

let running = new AbortController();  // One translation at a time.
let choosing = new AbortController();  // One model description at a time.
let retries = [];  // Actions to retry with a new token.
let current = "";  // Text and model of the current translation.
let job = null;
let gap = null;  // The lines of the job that are being translated.
let examples = [EXAMPLE];
let example = "";  // The last example inserted into the text.

/** Runs an action, which returns the final status; cancels the previous action. */
async function run(action) {
  running.abort();
  const controller = running = new AbortController();
  hideError();
  notify();
  at("status").textContent = TRANSLATING;
  showBusy(true);
  let status = "";
  try {
    status = await action(controller.signal);
  } catch (error) {
    if (running !== controller) return;
    const isCancelled = controller.signal.aborted;
    if (!isCancelled) showError(error, () => run(gap ? (signal) => fill(gap, signal) : action));
    status = job?.done ? summary(job) : isCancelled ? "Cancelled." : "";
  }
  if (running !== controller) return;  // Another action has started.
  current = "";
  at("status").textContent = status;
  showBusy(false);
  if (!job?.done) return gap?.reset();
  gap.close();
  at("tools").hidden = false;
  at("copy-all").hidden = job.numbers.length === 1;
  at("words-hint").hidden = !job.aligner;
}

function showBusy(isBusy) {
  if (!isBusy && document.activeElement === at("cancel")) at("translate").focus();
  at("form").classList.toggle("working", isBusy);
  at("results").ariaBusy = String(isBusy);
  showProgress(0, 1);
}

/** Shows an error; after a 401, asks for a token and retries with it. */
function showError(error, again) {
  at("error").textContent = error.message;
  at("error").hidden = false;
  if (error.status !== 401) return;
  retries.push(again);
  at("token-form").hidden = false;
  at("token").focus();
}

function hideError() {
  at("error").hidden = at("token-form").hidden = true;
  retries = [];
}

async function translate(signal) {
  const lines = at("text").value.split("\n").map((line) => line.trim());
  job?.aligner?.stop();
  job = gap = null;
  at("results").replaceChildren();
  at("tools").hidden = true;
  if (!lines.some((line) => line)) return "Enter a text first.";
  if (!at("model").value) await loadModels(signal);
  const model = await describe(at("model").value, signal);
  showModel(model);
  if (model.problem) throw new ServerError(0, model.problem);
  job = new Job(lines, model);
  gap = new Gap(job, 0, job.numbers.length);
  at("results").append(gap.element);
  return fill(gap, signal);
}

/** Describes how much was translated, by which version, and in what time. */
function summary({ done, numbers, model, versions, milliseconds }) {
  const count = (number) => number.toLocaleString("en");
  const total = numbers.length === 1 ? "1 sentence" : `${count(numbers.length)} sentences`;
  const what = done < numbers.length ? `${count(done)} of ${total}` : total;
  const all = [...versions];
  const which = all.length === 1 ? `version ${all[0]}` : `versions ${all.join(" and ")}`;
  const seconds = (milliseconds / 1000).toFixed(2);
  const lacks = [];
  if (!model.usable.includes("n_best")) lacks.push("alternatives");
  if (!model.usable.includes("align")) lacks.push("alignment");
  const note = lacks.length ? ` This model provides no ${lacks.join(" and no ")}.` : "";
  return `${what}, ${model.name}, ${which}, ${seconds} s.${note}`;
}

/** Loads the description of the selected model. */
async function choose() {
  choosing.abort();
  const { signal } = choosing = new AbortController();
  hideError();
  at("version").textContent = at("languages").textContent = "";
  examples = [EXAMPLE];
  try {
    if (!at("model").value) await loadModels(signal);
    const model = await describe(at("model").value, signal);
    showModel(model);
    if (model.examples?.length) examples = model.examples;
    if (model.problem) throw new ServerError(0, model.problem);
  } catch (error) {
    if (!signal.aborted) showError(error, choose);
  }
}

function submit() {
  const request = JSON.stringify([at("model").value, at("text").value]);
  if (request === current) return;  // A double click.
  run(translate);
  current = request;
}

/** Inserts the next example into the text and keeps what the user has written. */
function useExample() {
  const text = at("text");
  const isFree = !text.value.trim() || text.value === example;
  example = examples[(examples.indexOf(example) + 1) % examples.length];
  text.value = isFree ? example : `${text.value.trimEnd()}\n${example}`;
  submit();
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
at("text").addEventListener("keydown", (event) => {
  const isShortcut = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (isShortcut && !event.isComposing) submit();
});
at("cancel").addEventListener("click", () => running.abort());
at("example").addEventListener("click", useExample);
at("copy-all").addEventListener("click", () => copy(job.text));
at("model").addEventListener("change", choose);
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  const again = retries;
  hideError();
  at("text").focus();
  for (const action of again) action();
});
if (/Mac|iPhone|iPad/.test(navigator.userAgent)) at("modifier").textContent = "⌘";
// Not the attribute autofocus: it may take the focus from the token's input.
at("text").focus();
choose();
