"""The page to try a model, in a browser, against a server that plays the real one."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources

import browser
import exported
import pytest
import served

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

pytestmark = browser.needed

CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ABSENT = -1e9

# Of each sentence: hypotheses, scores, and what `align` says of the best.
TRANSLATIONS = {
    "Hello little world": (
        ["Hallo kleine Welt", "Hallo Welt", ""],
        [-0.1234, -0.5, ABSENT],
    ),
    "Unknown word": (["Unbekanntes Wort"], [-0.7]),
    "Bye": (["Tschüss"], [-0.25]),
    HOSTILE: ([HOSTILE, "<b>bold</b>"], [-0.1, -0.2]),
    "slow": (["langsam"], [-0.1]),
    "fast": (["schnell"], [-0.1]),
    "cut": (["geschnitten"], [-0.1]),
}
STATUS = {"cut": "too_long", "\u200b": "empty"}
ALIGNMENTS = {
    "Hello little world": {
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
    "Unknown word": {
        "source": (["▁", "<unk>", "▁word"], [0, 0, 1]),
        "target": (["<unk>", "▁Wo", "rt"], [0, 1, 1]),
        "log_probs": [-0.1, -0.1, -0.1],
        "attention": [[0.1, 0.7, 0.1], [0.0, 0.1, 0.9], [0.0, 0.1, 0.9]],
    },
    HOSTILE: {
        "source": (["▁<img", "▁src=x", "▁onerror"], [0, 1, 2]),
        "target": ([f"▁{part}" for part in HOSTILE.split()], [0, 1, 2]),
        "log_probs": [-0.1] * 3,
        "attention": [[0.3] * 3] * 3,
    },
}


def one_word(source):
    """Aligns what has no alignment above, all of it one word with another text."""
    return {
        "source": ([f"▁{source}"], [0]),
        "target": (["▁x"], [0]),
        "log_probs": [-0.1],
        "attention": [[1.0]],
    }


def padded(rows, filler):
    width = max(map(len, rows))
    return [[*row, *[filler] * (width - len(row))] for row in rows]


def align(texts):
    rows = [ALIGNMENTS.get(text) or one_word(text) for text in texts]
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


class Stub(ThreadingHTTPServer):
    """What the page needs of the server, and what may go wrong with it.

    Attributes:
        models: By name the signatures of each.
        version: What is said to be served.
        token: What requests have to carry.
        failure: A status and a message that predictions are answered with.
        slow: Set once the sentence "slow" may be answered.
        answered: Released for each answer to a prediction with the sentence "slow".
        requests: The method, path and body of each request.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.models = {"en-de": {"n_best", "align"}}
        self.version = "3"
        self.token = None
        self.failure = None
        self.slow = threading.Event()
        self.entered = threading.Event()
        self.answered = threading.Semaphore(0)
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        """Says nothing: the page gives requests up."""

    def bodies(self, signature):
        """Returns the inputs of the predictions with a signature, None for none."""
        bodies = [body for _, _, body in self.requests if body]
        return [b["inputs"] for b in bodies if b.get("signature_name") == signature]

    def reply(self, method, path, body, authorization):
        """Returns the status and the JSON of an answer."""
        if self.token and authorization != f"Bearer {self.token}":
            return 401, {"error": "A valid API token is needed."}
        if (method, path) == ("GET", "/v1/models"):
            return 200, {"models": list(self.models)}
        name, _, verb = path.removeprefix("/v1/models/").partition(":")
        if name not in self.models:
            return 404, {"error": f"No model {name}"}
        if method == "GET":
            versions = [(self.version, "AVAILABLE"), ("1", "AVAILABLE"), ("9", "END")]
            ok = {"error_code": "OK", "error_message": ""}
            return 200, {
                "model_version_status": [
                    {"version": v, "state": s, "status": ok} for v, s in versions
                ]
            }
        assert verb == "predict"
        if self.failure:
            return self.failure
        return self.predict(name, body)

    def predict(self, name, body):
        texts, signature = body["inputs"]["text"], body.get("signature_name")
        if signature and signature not in self.models[name]:
            return 400, {"error": f"No signature {signature}"}
        if "slow" in texts:
            self.entered.set()
            assert self.slow.wait(browser.PATIENCE)
        if signature == "align":
            return 200, {"outputs": align(texts)}
        found = [TRANSLATIONS.get(text, (["", ""], [0.0, 0.0])) for text in texts]
        status = [STATUS.get(text, "ok") for text in texts]
        if signature == "n_best":
            translations = padded([row[0] for row in found], "")
            scores = padded([row[1] for row in found], ABSENT)
            outputs = {"translations": translations, "scores": scores}
        else:
            outputs = {
                "translation": [row[0][0] for row in found],
                "score": [row[1][0] for row in found],
            }
        return 200, {"outputs": {**outputs, "status": status}}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        """Says nothing."""

    def do_GET(self):
        if self.path == "/":
            page = resources.files("t2t_keras.serving") / "page" / "index.html"
            return self.send(200, page.read_bytes(), "text/html; charset=utf-8")
        return self.answer(None)

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.answer(json.loads(self.rfile.read(length)))

    def answer(self, body):
        stub = self.server
        stub.requests.append((self.command, self.path, body))
        authorization = self.headers["Authorization"]
        status, reply = stub.reply(self.command, self.path, body, authorization)
        try:
            self.send(status, json.dumps(reply).encode(), "application/json")
        finally:
            if body and "slow" in body["inputs"]["text"]:
                stub.answered.release()

    def send(self, status, content, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", CSP)
        self.end_headers()
        self.wfile.write(content)


class Page:
    """The page in the browser.

    Attributes:
        statuses: What answers other than 200 the test is about.
    """

    def __init__(self, driver, stub):
        self.driver = driver
        self.stub = stub
        self.statuses = set()

    def open(self):
        self.driver.get(self.stub.url)
        return self

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        # In one script, since the page may be changing.
        return self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((element) => element.innerText)",
            selector,
        )

    def wait(self, condition):
        return WebDriverWait(self.driver, browser.PATIENCE, 0.05).until(
            lambda _: condition()
        )

    def wait_for(self, selector, *texts):
        self.wait(lambda: self.texts(selector) == list(texts))

    def ready(self):
        """Waits for the models and their version."""
        self.wait(lambda: self.texts("#version") != [""])
        return self

    def write(self, *lines):
        text = self.find("#text")
        text.clear()
        text.send_keys("\n".join(lines))

    def translate(self, *lines):
        """Translates, and waits for the answer and all that follows from it."""
        self.write(*lines)
        self.find("#translate").click()
        self.wait_idle()

    def wait_idle(self):
        self.wait(lambda: self.find("#results").get_attribute("aria-busy") == "false")

    def focused(self):
        return self.driver.switch_to.active_element

    def weights(self, selector):
        """Returns how strongly each word is marked, by its background's opacity."""
        return self.driver.execute_script(
            """return [...document.querySelectorAll(arguments[0])].map((word) => {
                 const color = getComputedStyle(word).backgroundColor;
                 const alpha = color.match(/^rgba\\(.*, ([\\d.]+)\\)$/);
                 return alpha ? Number(alpha[1]) : 1;
               })""",
            selector,
        )

    def point_at(self, element):
        webdriver.ActionChains(self.driver).move_to_element(element).perform()

    def check(self):
        """Nothing went outside, and the console has no errors."""
        urls = self.driver.execute_script(
            "return performance.getEntries().map((entry) => entry.name)"
            ".filter((name) => name.includes(':'))"
        )
        assert self.stub.url in urls
        assert all(url.startswith(self.stub.url) for url in urls), urls
        expected = [f"responded with a status of {s}" for s in self.statuses]
        unexpected = [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if not any(text in entry["message"] for text in expected)
        ]
        assert not unexpected
        paths = {path for _, path, _ in self.stub.requests}
        assert all(path.startswith("/v1/models") for path in paths), paths


@pytest.fixture(scope="module")
def driver():
    driver = browser.start()
    yield driver
    driver.quit()


@pytest.fixture
def stub():
    with Stub() as stub:
        thread = threading.Thread(target=stub.serve_forever, args=(0.05,))
        thread.start()
        yield stub
        stub.slow.set()
        stub.shutdown()
        thread.join()


@pytest.fixture
def page(driver, stub):
    driver.get("about:blank")
    driver.get_log("browser")
    page = Page(driver, stub)
    yield page
    page.check()


def test_hypotheses_are_shown_with_their_scores(page, stub):
    page.open().ready().translate("Hello little world", "  ", "", "Bye ", "cut")
    assert page.texts(".best") == ["Hallo kleine Welt", "Tschüss", "geschnitten"]
    assert page.texts(".source") == ["Hello little world", "Bye", "cut"]
    # Hypotheses that do not exist are not shown, nor is a table of only one.
    cells = ["1", "Hallo kleine Welt", "-0.123", "2", "Hallo Welt", "-0.500"]
    assert page.texts("td") == cells
    second, third = page.texts("article")[1:]
    assert "-0.250" in second
    assert "cut at the model's greatest length" in third
    assert page.texts("#status")[0].startswith("3 sentences, en-de, ")
    assert stub.bodies("n_best") == [{"text": ["Hello little world", "Bye", "cut"]}]
    assert page.find("#error").is_displayed() is False


def test_sentence_without_a_token(page, stub):
    page.open().ready().translate("\u200b")
    assert page.texts(".best") == ["(no translation)"]
    assert "nothing to translate" in page.texts("article")[0]
    assert page.texts("td") == []
    assert stub.bodies("align") == []


def test_no_text(page, stub):
    page.open().ready().translate("  ", "")
    assert page.texts("#status") == ["There is no text yet."]
    assert stub.bodies("n_best") == []


def test_one_model_is_named_and_not_chosen(page):
    page.open().ready()
    assert page.texts("#model-name") == ["en-de"]
    assert page.texts("#version") == ["Version 3"]
    assert not page.find("#model").is_displayed()
    assert not page.find("#model-label").is_displayed()


def test_chosen_model_translates(page, stub):
    stub.models["de-en"] = {"n_best", "align"}
    page.open().ready()
    assert not page.find("#model-name").is_displayed()
    select = Select(page.find("#model"))
    assert [option.text for option in select.options] == ["en-de", "de-en"]
    stub.version = "4"
    select.select_by_visible_text("de-en")
    page.wait_for("#version", "Version 4")
    stub.version = "10"
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    assert ", de-en, " in page.texts("#status")[0]
    # A model may be replaced while the page is open; 10 is newer than 3, too.
    assert page.texts("#version") == ["Version 10"]
    paths = {path for method, path, _ in stub.requests if method == "POST"}
    assert paths == {"/v1/models/de-en:predict"}


def test_pointing_marks_the_words_that_belong_together(page):
    page.open().ready().translate("Bye", "Hello little world")
    last = "article:last-child"
    assert page.texts(f"{last} .source .word") == ["Hello", "little", "world"]
    assert page.texts(f"{last} .best .word") == ["Hallo", "kleine", "Welt"]
    assert page.weights(".word") == [0] * 8
    hallo, kleine, _ = page.driver.find_elements(By.CSS_SELECTOR, f"{last} .best .word")
    page.point_at(hallo)
    assert page.weights(f"{last} .source .word") == pytest.approx(
        [0.8, 0.1, 0], abs=0.01
    )
    assert hallo.get_attribute("class") == "word chosen"
    assert hallo.get_attribute("title") == "Probability 61 %"
    # Of a word of two tokens the mean; e^-0.3.
    page.point_at(kleine)
    expected = [0.05, 0.7, 0.2]
    assert page.weights(f"{last} .source .word") == pytest.approx(expected, abs=0.01)
    assert kleine.get_attribute("title") == "Probability 74 %"
    # The other way round.
    page.point_at(page.find(f"{last} .source .word:nth-child(2)"))
    expected = [0.1, 0.7, 0]
    assert page.weights(f"{last} .best .word") == pytest.approx(expected, abs=0.01)
    assert page.weights(f"{last} .source .word") == [0, 0, 0]
    page.point_at(page.find("h1"))
    assert page.weights(".word") == [0] * 8
    assert page.driver.find_elements(By.CSS_SELECTOR, ".chosen") == []


def test_words_are_those_of_the_text(page):
    page.open().ready().translate("Unknown word", "Bye")
    # By white space, since the tokens lack a text; their count is the same.
    assert page.texts("article:first-child .word") == [
        *["Unknown", "word"],
        *["Unbekanntes", "Wort"],
    ]
    page.point_at(page.find("article:first-child .best .word"))
    expected = [0.8, 0.1]
    found = page.weights("article:first-child .source .word")
    assert found == pytest.approx(expected, abs=0.01)


def test_tokens_words_where_the_text_has_others(page, monkeypatch):
    monkeypatch.setitem(TRANSLATIONS, "Bye", (["Auf Wiedersehen"], [-0.1]))
    alignment = {
        "source": (["B", "##y", "##e", "."], [0, 0, 0, 1]),
        "target": (["auf", "wieder", "##sehen", "!"], [0, 1, 1, 2]),
        "log_probs": [-0.1] * 4,
        "attention": [[0.25] * 4] * 4,
    }
    monkeypatch.setitem(ALIGNMENTS, "Bye", alignment)
    page.open().ready().translate("Bye")
    assert page.texts(".source") == ["Bye ."]
    assert page.texts(".best .word") == ["auf", "wiedersehen", "!"]


def test_rest_of_a_cut_sentence_is_shown(page, monkeypatch):
    monkeypatch.setitem(TRANSLATIONS, "cut, and more", (["Geschnitten,"], [-0.1]))
    alignment = {
        "source": (["cut", ","], [0, 1]),
        "target": (["Gesch", "##nitten", ","], [0, 0, 1]),
        "log_probs": [-0.1] * 3,
        "attention": [[0.5] * 2] * 3,
    }
    monkeypatch.setitem(ALIGNMENTS, "cut, and more", alignment)
    page.open().ready().translate("cut, and more")
    assert page.texts(".source") == ["cut, and more"]
    assert page.texts(".best") == ["Geschnitten,"]
    assert page.texts(".word") == ["cut", ",", "Geschnitten", ","]


def test_hostile_text_is_text(page, stub):
    stub.models = {"<b>&": stub.models["en-de"]}
    stub.models["%3Cb%3E%26"] = stub.models["<b>&"]
    page.open().ready().translate(HOSTILE)
    assert page.texts(".best") == [HOSTILE]
    assert page.texts("td") == ["1", HOSTILE, "-0.100", "2", "<b>bold</b>", "-0.200"]
    assert page.texts("option")[0] == "<b>&"
    assert page.texts(".best .word") == HOSTILE.split()
    inside = page.driver.find_elements(By.CSS_SELECTOR, "main img, main script, main b")
    assert inside == []
    stub.failure = 503, {"error": HOSTILE}
    page.statuses = {503}
    page.translate("Bye")
    assert HOSTILE in page.find("#error").text
    assert page.driver.find_elements(By.CSS_SELECTOR, "main img") == []


def test_model_with_one_translation(page, stub):
    stub.models["en-de"] = set()
    page.statuses = {400}
    page.open().ready().translate("Hello little world", "cut")
    assert page.texts(".best") == ["Hallo kleine Welt", "geschnitten"]
    first, second = page.texts("article")
    assert "-0.123" in first
    assert "greatest length" in second
    assert "without alignment" in page.texts("#status")[0]
    assert page.texts(".word") == []
    assert stub.bodies(None) == [{"text": ["Hello little world", "cut"]}]
    assert stub.bodies("align") == []


def test_model_without_alignment(page, stub):
    stub.models["en-de"] = {"n_best"}
    page.statuses = {400}
    page.open().ready().translate("Hello little world")
    assert page.texts(".best") == ["Hallo kleine Welt"]
    assert "no alignment" in page.texts("#status")[0]
    assert not page.find("#error").is_displayed()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "cannot take"),
        (429, "more than the server takes"),
        (500, "failed"),
        (503, "not ready"),
        (504, "longer than the server allows"),
    ],
)
def test_errors_are_told(page, stub, status, words):
    page.open().ready()
    page.statuses = {status}
    stub.failure = status, {"error": "what the server said"}
    page.translate("Bye")
    assert words in page.find("#error").text
    assert "what the server said" in page.find("#error").text
    assert page.texts(".best") == []
    stub.failure = None
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    assert not page.find("#error").is_displayed()


def test_answer_of_another_shape(page, stub):
    page.open().ready()
    stub.failure = 200, {"outputs": [0.5]}
    page.translate("Bye")
    assert page.find("#error").is_displayed()
    assert page.find("#error").text


def test_server_that_is_gone(page, stub):
    page.open().ready()
    stub.shutdown()
    stub.socket.close()
    page.translate("Bye")
    assert "cannot be reached" in page.find("#error").text
    log = page.driver.get_log("browser")
    assert all("net::ERR_CONNECTION_REFUSED" in entry["message"] for entry in log)


def test_token_is_asked_for_and_forgotten(page, stub):
    stub.token = "secret"
    page.statuses = {401}
    page.open()
    page.wait(lambda: page.find("#token").is_displayed())
    assert "A valid API token is needed." in page.find("#error").text
    assert page.focused() == page.find("#token")
    page.find("#token").send_keys("wrong", Keys.ENTER)
    page.wait(lambda: page.focused() == page.find("#token"))
    page.find("#token").clear()
    page.find("#token").send_keys(" secret ", Keys.ENTER)
    page.ready()
    assert page.texts("#model-name") == ["en-de"]
    assert not page.find("#token").is_displayed()
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    # What was asked for is done again with a new token.
    stub.token = "changed"
    page.translate("fast")
    page.find("#token").clear()
    page.find("#token").send_keys("changed", Keys.ENTER)
    page.wait_for(".best", "schnell")
    stored = "return [localStorage.length, sessionStorage.length, document.cookie]"
    assert page.driver.execute_script(stored) == [0, 0, ""]
    page.wait_idle()
    page.open()
    page.wait(lambda: page.find("#token").is_displayed())
    assert page.find("#token").get_attribute("value") == ""


def test_answers_do_not_cross(page, stub):
    page.open().ready()
    page.write("slow")
    page.find("#translate").click()
    page.wait(stub.entered.is_set)
    assert page.find("#busy").is_displayed()
    assert page.texts("#status") == ["Translating…"]
    page.translate("fast")
    assert page.texts(".best") == ["schnell"]
    status = page.texts("#status")
    stub.slow.set()
    assert stub.answered.acquire(timeout=browser.PATIENCE)
    # Had the slow answer been wanted, it would have been read before this one.
    page.driver.execute_async_script(
        "fetch('v1/models').then((answer) => answer.json()).then(arguments[0])"
    )
    assert page.texts(".best") == ["schnell"]
    assert page.texts("#status") == status
    assert not page.find("#busy").is_displayed()
    assert [inputs["text"] for inputs in stub.bodies("align")] == [["fast"]]


def test_text_may_be_sent_before_the_models_are_known(page, stub):
    stub.models, models = {}, stub.models
    page.open()
    page.wait(lambda: "no model" in page.find("#error").text)
    stub.models = models
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    assert page.texts("#model-name") == ["en-de"]


def test_keyboard_is_enough(page):
    page.open().ready()
    assert page.focused() == page.find("#text")
    page.focused().send_keys("Hello little world")
    page.focused().send_keys(Keys.CONTROL, Keys.ENTER)
    page.wait_for(".best .word", "Hallo", "kleine", "Welt")
    page.wait_idle()
    assert page.find("#text").get_attribute("value") == "Hello little world"
    places = []
    for _ in range(5):
        page.focused().send_keys(Keys.TAB)
        places.append(page.focused().text)
    assert places == ["Translate", "Hello", "little", "world", "Hallo"]
    found = page.weights(".source .word")
    assert found == pytest.approx([0.8, 0.1, 0], abs=0.01)
    # A pointer that passes does not take the focused word's marks away.
    page.point_at(page.find(".best .word:last-child"))
    page.point_at(page.find("h1"))
    assert page.weights(".source .word") == found
    page.find("#translate").send_keys(Keys.TAB)
    assert page.weights(".source .word") == [0, 0, 0]


def test_narrow_screen(page):
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True},
    )
    try:
        page.open().ready().translate("Hello little world", HOSTILE, "x" * 200)
        width = page.driver.execute_script(
            "return document.documentElement.scrollWidth"
        )
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width == 360


def test_the_real_server_is_understood(driver, tmp_path):
    model, tokenizers = exported.toy()
    exported.export(tmp_path / "toy" / "1", model, tokenizers)
    lines = exported.LINES[5:8]
    expected = exported.translator(model, tokenizers).translate(lines)
    arguments = ("--model_name=toy", f"--model_base_path={tmp_path / 'toy'}")
    with served.server(*arguments) as server:
        driver.get("about:blank")
        driver.get_log("browser")
        server.url += "/"
        page = Page(driver, server).open().ready()
        assert page.texts("#version") == ["Version 1"]
        page.translate(*lines)
        shown = [best.text or "(no translation)" for best, *_ in expected]
        assert page.texts(".best") == shown
        scores = [f"{best.score:.3f}" for best, *_ in expected]
        assert page.texts("td:last-child")[::2] == scores
        word = page.find("article:first-child .best .word")
        page.point_at(word)
        assert sum(page.weights("article:first-child .source .word")) > 0
        assert driver.get_log("browser") == []


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
