// The page: what happens when a user asks for something.

const TRANSLATING = "Translating…";

let running = new AbortController();  // One translation at a time.
let choosing = new AbortController();  // And one look at a model.
let retries = [];  // What to do again once there is a token.
let asked = "";  // Text and model of what is under way.
let job = null;
let gap = null;  // The lines of the job that are being translated.
let examples = [EXAMPLE];
let example = "";  // The last that was put into the text.

/** Does one thing; what was under way is given up. Each returns what to say at its end. */
async function run(action) {
  running.abort();
  const controller = running = new AbortController();
  hideError();
  tell();
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
  if (running !== controller) return;  // Another has begun.
  asked = "";
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

/** Shows an error; if a token is missing, it is asked for, and then used to try again. */
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
  if (!lines.some((line) => line)) return "There is no text yet.";
  if (!at("model").value) await loadModels(signal);
  const model = await describe(at("model").value, signal);
  showModel(model);
  if (model.problem) throw new ServerError(0, model.problem);
  job = new Job(lines, model);
  gap = new Gap(job, 0, job.numbers.length);
  at("results").append(gap.element);
  return fill(gap, signal);
}

/** Says how much is translated, by what, and in what time. */
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
  const note = lacks.length ? ` This model gives no ${lacks.join(" and no ")}.` : "";
  return `${what}, ${model.name}, ${which}, ${seconds} s.${note}`;
}

/** Looks at the chosen model: which version there is, and whether it translates. */
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
  if (request === asked) return;  // A double click.
  run(translate);
  asked = request;
}

/** Puts the next example into the text, without touching what the user has written. */
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
// Not the attribute autofocus: it may act after the token has been asked for.
at("text").focus();
choose();
