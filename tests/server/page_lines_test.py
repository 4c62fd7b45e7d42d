"""Texts of many lines on the translation page: several requests, no lost line."""

import itertools
import sys

import browser
import page_in_browser
import pytest

pytest_plugins = [page_in_browser.__name__]
pytestmark = browser.needed

LINES = [f"line {number}" for number in range(60)]


def upper(lines):
    return [line.upper() for line in lines]


def test_long_text_is_translated_in_order_by_several_requests(page, stub):
    lines = [f"line {number}" for number in range(2100)]
    page.open().ready().translate(*lines)
    assert page.texts(".best") == upper(lines)
    assert page.text("#status").startswith("2,100 sentences, en-de, ")
    parts = [body["text"] for body in stub.bodies("n_best")]
    assert list(itertools.chain(*parts)) == lines
    assert max(map(len, parts)) <= 1024
    assert not page.find("#error").is_displayed()


def test_requests_respect_the_server_limits(page, stub):
    stub.max_rows = 5
    page.open().ready().translate(*LINES)
    assert page.texts(".best") == upper(LINES)
    assert max(len(body["text"]) for body in stub.bodies("n_best")) == 5


def test_long_lines_share_a_request_only_if_they_fit(page, stub):
    stub.max_bytes = 8192
    lines = ["ä" * 1500 for _ in range(8)]
    page.open().ready().translate(*lines)
    assert page.texts(".best") == upper(lines)
    assert {len(body["text"]) for body in stub.bodies("n_best")} == {2}


def test_progress_is_shown_and_the_rest_can_be_cancelled_and_continued(page, stub):
    page.open().ready()
    page.write(*LINES[:30], "", "slow", *LINES[30:])
    page.find("#translate").click()
    page.wait(stub.entered.is_set)
    page.wait_for("#done", "24 of 61 lines")
    assert page.find("#bar").get_attribute("value") == "24"
    assert page.find("#bar").get_attribute("max") == "61"
    # Finished lines are shown already.
    assert page.texts(".best") == upper(LINES[:24])
    page.find("#cancel").click()
    page.wait_idle()
    assert page.text(".gap p") == "Lines 25 to 62 are not translated."
    assert page.text("#status").startswith("24 of 61 sentences, en-de, ")
    assert not page.find("#progress").is_displayed()
    stub.may_respond.set()
    page.find(".gap button").click()
    page.wait_idle()
    assert page.texts(".best") == upper([*LINES[:30], "slow", *LINES[30:]])
    assert page.all(".gap") == []
    assert page.text("#status").startswith("61 sentences, ")
    # The focus moves to where the button was.
    page.wait(lambda: page.focused().get_attribute("aria-label") == "Line 25")
    labels = page.run(
        "return [...document.querySelectorAll('article')].map((one) => one.ariaLabel)"
    )
    # Lines are numbered as in an editor, including empty ones.
    assert labels[29:32] == ["Line 30", "Line 32", "Line 33"]


@pytest.mark.parametrize("status", [400, 413, 500, 504])
def test_one_bad_line_does_not_affect_the_others(page, stub, status):
    page.statuses = {status}
    page.open().ready()
    bad = LINES[20]

    def fail(texts, signature):
        return (status, {"error": "bad line"}, {}) if bad in texts else None

    stub.failure = fail
    page.translate(*LINES)
    assert page.texts(".best") == upper([*LINES[:20], *LINES[21:]])
    assert page.text("article:nth-child(21)") == page.text(".gap")
    assert "Line 21 is not translated. " in page.text(".gap p")
    assert "(bad line)" in page.text(".gap p")
    assert page.text("#status").startswith("59 of 60 sentences, ")
    stub.failure = lambda *_: None
    page.find(".gap button").click()
    page.wait_idle()
    assert page.texts(".best") == upper(LINES)
    page.find("#copy-all").click()


def test_results_are_kept_if_the_server_shuts_down(page, stub):
    page.statuses = {503}
    page.open().ready()
    numbers = itertools.count()

    def fail(texts, signature):
        if signature == "n_best" and next(numbers) > 1:
            return 503, {"error": "The server is shutting down."}, {"Retry_After": "0"}
        return None

    stub.failure = fail
    page.translate(*LINES)
    assert page.texts(".best") == upper(LINES[:24])
    assert "The server is shutting down." in page.text("#error")
    assert "Lines 25 to 60 are not translated." in page.text(".gap")
    stub.failure = lambda *_: None
    page.find(".gap button").click()
    page.wait_idle()
    assert page.texts(".best") == upper(LINES)
    assert not page.find("#error").is_displayed()


def test_expired_token_is_requested_and_translation_continues(page, stub):
    page.statuses = {401}
    page.open().ready()
    page.translate("warm-up")
    numbers = itertools.count()

    def expire(texts, signature):
        if signature == "n_best" and next(numbers) == 1:
            stub.token = "new"
        return None

    stub.failure = expire
    page.translate(*LINES)
    assert page.texts(".best") == upper(LINES[:24])
    page.wait(lambda: page.focused() == page.find("#token"))
    page.focused().send_keys("new\n")
    page.wait_for(".best", *upper(LINES))
    page.wait_idle()
    requested = [body["text"] for body in stub.bodies("n_best")][1:]
    assert requested.count(LINES[:8]) == 1


def test_retry_of_a_line_keeps_the_other_results(page, stub):
    """The line is retried while later lines are being translated."""
    page.statuses = {500}
    page.open().ready()

    def fail(texts, signature):
        return (500, {"error": "bad line"}, {}) if LINES[3] in texts else None

    stub.failure = fail
    page.write(*LINES, "slow", *LINES)
    page.find("#translate").click()
    page.wait(stub.entered.is_set)
    stub.failure = lambda *_: None
    page.find(".gap button").click()
    page.wait_idle()
    assert page.texts(".best") == upper(LINES[: len(page.texts(".best"))])
    assert page.text(".gap p").endswith(" to 121 are not translated.")
    stub.may_respond.set()
    page.find(".gap button").click()
    page.wait_idle()
    assert page.texts(".best") == upper([*LINES, "slow", *LINES])


def test_model_that_always_fails_is_not_tried_for_every_line(page, stub):
    page.statuses = {500}
    page.open().ready()
    stub.fail(500)
    page.translate(*LINES)
    assert "The server failed." in page.text("#error")
    assert page.all("article:not([hidden])") == []
    assert len(stub.bodies("n_best")) < 10


def test_copy_all_has_one_line_per_line_of_text(page, stub):
    page.statuses = {500}
    page.open().ready()

    def fail(texts, signature):
        return (500, {"error": "bad line"}, {}) if "b" in texts else None

    stub.failure = fail
    page.translate("a", "", "b", "\u200b", "c")
    copied = (
        "const write = navigator.clipboard.writeText;"
        "navigator.clipboard.writeText = (text) => { window.copied = text; };"
        "document.getElementById('copy-all').click(); return window.copied"
    )
    assert page.run(copied) == "A\n\n\n\nC"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
