"""The translation page's behavior when the server fails or does not respond."""

import sys

import browser
import page_in_browser
import pytest
import served
from page_stub import TRANSLATIONS
from selenium.webdriver.common.keys import Keys

pytest_plugins = [page_in_browser.__name__]
pytestmark = browser.needed


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "does not accept"),
        (413, "longer than the server accepts"),
        (429, "too many requests"),
        (500, "failed"),
        (503, "too busy"),
        (504, "longer than the server allows"),
    ],
)
def test_errors_are_shown(page, stub, status, message):
    page.open().ready()
    page.statuses = {status}
    stub.fail(status, Retry_After="0")
    page.translate("Bye")
    assert message in page.text("#error")
    assert "what the server said" in page.text("#error")
    assert page.texts(".best") == []
    stub.failure = lambda *_: None
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    assert not page.find("#error").is_displayed()


@pytest.mark.parametrize("status", [429, 503])
def test_busy_server_is_retried_after_retry_after(page, stub, status):
    page.open().ready()
    page.statuses = {status}
    answers = iter([{"Retry_After": "0"}] * 3)

    def busy(*_):
        headers = next(answers, None)
        return None if headers is None else (status, {"error": "busy"}, headers)

    stub.failure = busy
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    assert not page.find("#error").is_displayed()
    assert len(stub.bodies("n_best")) == 4


def test_waiting_for_a_busy_server_is_shown_and_can_be_cancelled(page, stub):
    page.open().ready()
    page.statuses = {503}
    stub.fail(503, Retry_After="50")
    page.write("Bye")
    page.find("#translate").click()
    page.wait_for("#done", "The server is busy. Retrying in 50 s.")
    page.find("#cancel").click()
    page.wait_idle()
    assert page.text("#status") == "Cancelled."
    assert page.focused() == page.find("#translate")
    assert len(stub.bodies("n_best")) == 1
    # Longer than the page waits.
    stub.fail(503, Retry_After="3600")
    page.translate("Bye")
    assert "too busy" in page.text("#error")


def test_outputs_of_wrong_shape_are_reported(page, stub):
    page.open().ready()
    for outputs in ([0.5], {"translations": "Bye"}, {"translations": [["a"], ["b"]]}):
        stub.failure = lambda *_, outputs=outputs: (200, {"outputs": outputs}, {})
        page.translate("Bye")
        assert "do not match its signature" in page.text("#error")


def test_non_finite_scores_are_not_shown(page, monkeypatch):
    """The server writes NaN as TensorFlow Serving does, which is not JSON."""
    texts = ['NaN, "NaN" and Infinity', "x"]
    scores = [float("nan"), float("-inf")]
    monkeypatch.setitem(TRANSLATIONS, "Bye", (texts, scores))
    page.open().ready().translate("Bye")
    assert page.texts(".best") == texts[:1]
    assert page.texts(".alternative") == []
    assert "Score" not in page.text("article")


def test_unreachable_server_is_reported(page, stub):
    page.open().ready()
    stub.shutdown()
    stub.socket.close()
    page.translate("Bye")
    assert "cannot be reached" in page.text("#error")
    log = page.driver.get_log("browser")
    assert all("net::ERR_CONNECTION_REFUSED" in entry["message"] for entry in log)


def test_token_is_requested_and_not_stored(page, stub):
    stub.token = "secret"
    page.statuses = {401}
    page.open()
    page.wait(lambda: page.find("#token").is_displayed())
    assert "A valid API token is required." in page.text("#error")
    assert page.focused() == page.find("#token")
    page.find("#token").send_keys("wrong", Keys.ENTER)
    page.wait(lambda: page.focused() == page.find("#token"))
    page.find("#token").clear()
    page.find("#token").send_keys(" secret ", Keys.ENTER)
    page.ready()
    assert page.text("#model-name") == "en-de"
    assert not page.find("#token").is_displayed()
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    # The failed action is retried with a new token.
    stub.token = "changed"
    page.translate("fast")
    page.find("#token").clear()
    page.find("#token").send_keys("changed", Keys.ENTER)
    page.wait_for(".best", "FAST")
    stored = "return [localStorage.length, sessionStorage.length, document.cookie]"
    assert page.run(stored) == [0, 0, ""]
    page.wait_idle()
    page.open()
    page.wait(lambda: page.find("#token").is_displayed())
    assert page.find("#token").get_attribute("value") == ""


def test_only_the_page_itself_needs_no_token(tmp_path):
    (tmp_path / "token").write_text("secret")
    (tmp_path / "toy").mkdir()
    arguments = ("--model_name=toy", f"--model_base_path={tmp_path / 'toy'}")
    with served.server(*arguments, f"--token_file={tmp_path / 'token'}") as server:
        assert "<!doctype html>" in server.get("/")[1]
        for path in ("/v1/models", "/v1/models/toy/about", "/v1/models/toy/metadata"):
            assert server.get(path)[0] == 401
        authorization = {"Authorization": "Bearer secret"}
        assert server.get("/v1/models/toy/about", headers=authorization)[0] == 404


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
