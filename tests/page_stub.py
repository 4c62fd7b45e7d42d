"""A fake model server for tests of the translation page."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import browser

from t2t_keras.server.translate_page import translate_page

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ABSENT = -1e9

# Hypotheses and scores by sentence; other sentences are translated to capitals.
TRANSLATIONS = {
    "Hello little world": (
        ["Hallo kleine Welt", "Hallo Welt", ""],
        [-0.1234, -0.5, ABSENT],
    ),
    "Unknown word": (["Unbekanntes Wort"], [-0.7]),
    "Bye": (["Tschüss"], [-0.25]),
    HOSTILE: ([HOSTILE, "<b>bold</b>"], [-0.1, -0.2]),
    "shalom": (["שלום עולם טוב"], [-0.1]),
    "cut": (["geschnitten"], [-0.1]),
    "\u200b": (["", ""], [0.0, 0.0]),
}
STATUS = {"cut": "too_long", "\u200b": "empty"}
# Outputs of `align` by sentence and translation.
ALIGNMENTS = {
    ("Hello little world", "Hallo kleine Welt"): {
        "source": (["▁Hel", "lo", "▁little", "▁world"], [0, 0, 1, 2]),
        "target": (["▁Hallo", "▁klein", "##e", "▁Welt"], [0, 1, 1, 2]),
        "log_probs": [-0.5, -0.1, -0.2, -0.05],
        "attention": [
            [0.5, 0.3, 0.1, 0.0],
            [0.0, 0.1, 0.6, 0.2],
            [0.0, 0.0, 0.8, 0.2],
            [0.0, 0.0, 0.0, 0.9],
        ],
    },
    ("Hello little world", "Hallo Welt"): {
        "source": (["▁Hel", "lo", "▁little", "▁world"], [0, 0, 1, 2]),
        "target": (["▁Hallo", "▁Welt"], [0, 1]),
        "log_probs": [-0.5, -0.7],
        "attention": [[0.4, 0.5, 0.0, 0.0], [0.0, 0.0, 0.35, 0.65]],
    },
    ("Unknown word", "Unbekanntes Wort"): {
        "source": (["▁", "<unk>", "▁word"], [0, 0, 1]),
        "target": (["<unk>", "▁Wo", "rt"], [0, 1, 1]),
        "log_probs": [-0.1, -0.1, -0.1],
        "attention": [[0.1, 0.7, 0.1], [0.0, 0.1, 0.9], [0.0, 0.1, 0.9]],
    },
}


def by_words(source, target):
    """Returns a uniform alignment with one token per word."""
    words = {"source": source.split(), "target": target.split()}
    sides = {
        side: ([f"▁{word}" for word in texts], list(range(len(texts))))
        for side, texts in words.items()
    }
    share = 1 / len(words["source"])
    return {
        **sides,
        "log_probs": [-0.1] * len(words["target"]),
        "attention": [[share] * len(words["source"])] * len(words["target"]),
    }


def padded(rows, filler):
    width = max(map(len, rows))
    return [[*row, *[filler] * (width - len(row))] for row in rows]


def align(texts, translations):
    rows = [
        ALIGNMENTS.get(pair) or by_words(*pair)
        for pair in zip(texts, translations, strict=True)
    ]
    outputs = {
        "token_scores": padded([[*row["log_probs"], -0.01] for row in rows], 0.0)
    }
    for side in ("source", "target"):
        outputs[f"{side}_tokens"] = padded([row[side][0] for row in rows], "")
        outputs[f"{side}_words"] = padded([row[side][1] for row in rows], -1)
    width = len(outputs["source_words"][0])
    height = len(outputs["target_words"][0])
    outputs["attention"] = [
        [
            *[[*line, *[0.0] * (width - len(line))] for line in row["attention"]],
            *[[0.5] * width] * (height - len(row["attention"])),
        ]
        for row in rows
    ]
    return outputs


def signature(inputs, outputs, dtype="DT_STRING"):
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    return {
        "inputs": {key: {"dtype": dtype, "tensor_shape": shape} for key in inputs},
        "outputs": {key: {"tensor_shape": shape} for key in outputs},
    }


SIGNATURES = {
    "serving_default": signature(["text"], ["translation", "score", "status"]),
    "n_best": signature(["text"], ["translations", "scores", "status"]),
    "align": signature(["text", "translation"], align(["x"], ["y"])),
}


class Stub(ThreadingHTTPServer):
    """A fake model server that can fail in the ways that a test requests.

    Attributes:
        models: Signatures by model name.
        version: Served version of all models; None for none.
        about: Description of all models at `/about`.
        max_rows: Maximum number of rows of a request.
        max_bytes: Maximum size of a request's body in bytes.
        token: API token that requests must carry.
        failure: Called with the texts and the signature of a prediction; returns its
            status, JSON and headers, or None for a valid response.
        may_respond: The response to the sentence "slow" is sent once this is set.
        entered: Set when the sentence "slow" has arrived.
        requests: The method, path and body of each request.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.models = {"en-de": dict(SIGNATURES)}
        self.version = "3"
        self.about = {"examples": []}
        self.max_rows = 1024
        self.max_bytes = 1 << 24
        self.token = None
        self.failure = lambda texts, signature: None
        self.may_respond = threading.Event()
        self.entered = threading.Event()
        self.responded = threading.Semaphore(0)
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        """Ignores disconnects: the page cancels requests."""

    def bodies(self, signature):
        """Returns the inputs of the predictions with a signature."""
        bodies = [body for _, _, body in self.requests if body]
        return [
            body["inputs"] for body in bodies if body["signature_name"] == signature
        ]

    def fail(self, status, message="what the server said", **headers):
        """Makes all predictions fail."""
        self.failure = lambda *_: (status, {"error": message}, headers)

    def reply(self, method, path, body, authorization):
        """Returns the status, the JSON and additional headers of a response."""
        if self.token and authorization != f"Bearer {self.token}":
            return 401, {"error": "A valid API token is required."}, {}
        if (method, path) == ("GET", "/v1/models"):
            return 200, {"models": list(self.models)}, {}
        name, _, verb = path.removeprefix("/v1/models/").partition(":")
        name, _, part = name.partition("/")
        if name not in self.models or not self.version:
            return 404, {"error": f"Could not find any versions of model {name}"}, {}
        if part == "metadata":
            signatures = {"signature_def": self.models[name]}
            return 200, {"metadata": {"signature_def": signatures}}, {}
        if part == "about":
            return 200, self.about, {}
        if method == "GET":
            versions = [(self.version, "AVAILABLE"), ("1", "AVAILABLE"), ("9", "END")]
            ok = {"error_code": "OK", "error_message": ""}
            return (
                200,
                {
                    "model_version_status": [
                        {"version": v, "state": s, "status": ok} for v, s in versions
                    ]
                },
                {},
            )
        assert verb == "predict"
        texts, signature = body["inputs"]["text"], body["signature_name"]
        if signature not in self.models[name]:
            return 400, {"error": f"No signature {signature}"}, {}
        if len(texts) > self.max_rows:
            return (
                400,
                {"error": f"A request may have at most {self.max_rows} rows."},
                {},
            )
        failure = self.failure(texts, signature)
        return failure or (
            200,
            {"outputs": self.predict(body["inputs"], signature)},
            {},
        )

    def predict(self, inputs, signature):
        texts = inputs["text"]
        if "slow" in texts:
            self.entered.set()
            assert self.may_respond.wait(browser.PATIENCE)
        if signature == "align":
            return align(texts, inputs["translation"])
        found = [TRANSLATIONS.get(text, ([text.upper()], [-0.1])) for text in texts]
        status = [STATUS.get(text, "ok") for text in texts]
        if signature == "n_best":
            return {
                "translations": padded([row[0] for row in found], ""),
                "scores": padded([row[1] for row in found], ABSENT),
                "status": status,
            }
        return {
            "translation": [row[0][0] for row in found],
            "score": [row[1][0] for row in found],
            "status": status,
        }


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        """Does not log."""

    def do_GET(self):
        if self.path == "/":
            page, headers = translate_page(self.server.max_rows, self.server.max_bytes)
            return self.send(200, page.encode(), "text/html; charset=utf-8", headers)
        return self.respond(None)

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.respond(json.loads(self.rfile.read(length)))

    def respond(self, body):
        stub = self.server
        stub.requests.append((self.command, self.path, body))
        authorization = self.headers["Authorization"]
        reply = stub.reply(self.command, self.path, body, authorization)
        status, content, headers = reply
        try:
            self.send(status, json.dumps(content).encode(), "application/json", headers)
        finally:
            if body and "slow" in body["inputs"]["text"]:
                stub.responded.release()

    def send(self, status, content, kind, headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)
