// The server: requests to it, its limits and its errors.

const at = (id) => document.getElementById(id);
const limits = JSON.parse(at("limits").textContent);

const PROBLEM = {
  400: "The model does not accept this request.",
  401: "The server requires a valid API token.",
  403: "The server does not allow this request.",
  404: "The server does not have this model.",
  413: "The request is longer than the server accepts.",
  429: "The server has too many requests at the moment.",
  503: "The server is too busy or the model is not ready.",
  504: "The translation took longer than the server allows.",
};
const BUSY = [429, 503];
const MAX_ATTEMPTS = 5;
const MAX_WAIT = 60;  // Seconds.

let token = "";  // In memory only.

/** A failed request; its status is 0 if the error is not the server's. */
class ServerError extends Error {
  constructor(status, message, detail = "", retryAfter = null) {
    super(detail ? `${message} (${detail})` : message);
    Object.assign(this, { status, detail, retryAfter });
  }
}

/** Sends a request, with retries if the server is busy; a body makes it a POST. */
async function ask(path, signal, body) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await askOnce(path, signal, body);
    } catch (error) {
      // Exponential backoff, starting from Retry-After.
      const seconds = (error.retryAfter ?? 1) * 2 ** (attempt - 1);
      const again = BUSY.includes(error.status) && seconds <= MAX_WAIT;
      if (!again || attempt === MAX_ATTEMPTS) throw error;
      at("done").textContent =
        `The server is busy. Retrying in ${Math.ceil(seconds)} s.`;
      await pause(1000 * seconds, signal);
      at("done").textContent = "";
    }
  }
}

async function askOnce(path, signal, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const request = { method: body ? "POST" : "GET", headers, signal };
  if (body) {
    headers["Content-Type"] = "application/json";
    request.body = new TextEncoder().encode(JSON.stringify(body));
    if (request.body.length > limits.bytes) {
      throw new ServerError(413, PROBLEM[413], `at most ${limits.bytes} bytes`);
    }
  }
  let response, text;
  try {
    response = await fetch(path, request);
    text = await response.text();
  } catch (error) {
    signal.throwIfAborted();
    throw new ServerError(0, "The server cannot be reached.", error.message);
  }
  signal.throwIfAborted();
  const content = parsed(text);
  if (!response.ok) {
    const problem = PROBLEM[response.status] ?? "The server failed.";
    const detail = content?.error ?? `HTTP ${response.status} ${response.statusText}`;
    const retryAfter = secondsUntil(response.headers.get("Retry-After"));
    throw new ServerError(response.status, problem, detail.trim(), retryAfter);
  }
  if (content === null) throw new ServerError(0, "The server's response is not JSON.");
  return content;
}

/** Parses JSON with NaN (as null) and infinities; null if it is not JSON. */
function parsed(text) {
  const strict = text.replace(
    /"(?:[^"\\]|\\.)*"|NaN|Infinity/g,
    (found) => ({ NaN: "null", Infinity: "1e999" })[found] ?? found,
  );
  try {
    return JSON.parse(strict);
  } catch {
    return null;  // For example from a proxy.
  }
}

/** Parses a Retry-After header, seconds or a date; null without one. */
function secondsUntil(header) {
  const seconds = header && (Number.isNaN(Number(header))
    ? (Date.parse(header) - Date.now()) / 1000 : Number(header));
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
  });
}

const modelUrl = (name) => `v1/models/${encodeURIComponent(name)}`;

/** Returns the outputs by name; servers omit the name of a single output. */
async function predict(model, signature, inputs, signal) {
  const body = { signature_name: signature, inputs };
  const { outputs } = await ask(`${modelUrl(model.name)}:predict`, signal, body);
  const names = Object.keys(model.signatures[signature].outputs);
  const byName = names.length === 1 ? { [names[0]]: outputs } : outputs;
  const rows = inputs.text.length;
  if (NEEDED[signature].outputs.some((name) => byName?.[name]?.length !== rows)) {
    throw new ServerError(0, "The model's outputs do not match its signature.");
  }
  return byName;
}
