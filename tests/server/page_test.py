"""The translation page: translations, copies, and the real server."""

import re
import sys
import urllib.request

import browser
import exported
import page_in_browser
import pytest
import served
from page_in_browser import Page
from page_stub import HOSTILE
from selenium.webdriver.common.keys import Keys

pytest_plugins = [page_in_browser.__name__]
pytestmark = browser.needed


def test_best_translation_and_alternatives_are_shown_with_scores(page, stub):
    page.open().ready().translate("Hello little world", "  ", "", "Bye ", "cut")
    assert page.texts(".best") == ["Hallo kleine Welt", "Tschüss", "geschnitten"]
    assert page.texts(".source") == ["Hello little world", "Bye", "cut"]
    first, second, third = page.texts("article")
    assert first.count("Hallo kleine Welt") == 1
    # Missing hypotheses are not shown.
    assert page.texts(".alternative") == ["Hallo Welt"]
    assert page.find(".alternatives ol").get_attribute("start") == "2"
    assert "Score -0.123" in first
    assert "Score -0.500" in first
    assert "Score -0.250" in second
    assert "truncated to the model's maximum input length" in third
    assert page.text("#status").startswith("3 sentences, en-de, version 3, ")
    assert stub.bodies("n_best") == [{"text": ["Hello little world", "Bye", "cut"]}]
    assert page.find("#error").is_displayed() is False


def test_scores_are_explained_and_shown_as_probability_per_token(page):
    page.open().ready().translate_and_align("Hello little world")
    # For "Hallo kleine Welt": e^((-0.5 - 0.1 - 0.2 - 0.05 - 0.01) / 5).
    best, other = page.texts(".figures")
    assert best == "Score -0.123 · 84% per token"
    assert other == "Score -0.500 · 67% per token"
    page.find("#legend summary").click()
    text = page.text("#legend")
    assert "divided by a length penalty" in text
    assert "geometric mean of the probabilities" in text


def test_sentence_without_tokens_has_no_translation(page, stub):
    page.open().ready().translate("\u200b")
    assert page.texts(".best") == ["(no translation)"]
    assert "nothing to translate" in page.text("article")
    assert page.texts(".alternative") == []
    assert stub.bodies("align") == []


def test_empty_text_is_not_sent(page, stub):
    page.open().ready().translate("  ", "")
    assert page.text("#status") == "Enter a text first."
    assert stub.bodies("n_best") == []


def test_hostile_text_is_shown_as_text(page, stub):
    stub.models = {"<b>&": stub.models["en-de"]}
    stub.models["%3Cb%3E%26"] = stub.models["<b>&"]
    stub.about = {"examples": [HOSTILE], "source_lang": HOSTILE, "target_lang": "de"}
    page.open().ready().translate_and_align(HOSTILE)
    assert page.texts(".best") == [HOSTILE]
    assert page.texts(".alternative") == ["<b>bold</b>"]
    assert page.texts("option")[0] == "<b>&"
    assert page.texts(".best .word") == HOSTILE.split()
    page.find(".facts button[aria-expanded]").click()
    assert page.all("main img, main script, main b, header img") == []
    stub.fail(500, HOSTILE)
    page.statuses = {500}
    page.translate("Bye")
    assert HOSTILE in page.text("#error")
    assert page.all("main img") == []


def test_results_of_cancelled_translation_are_not_shown(page, stub):
    page.open().ready()
    page.write("slow")
    page.find("#translate").click()
    page.wait(stub.entered.is_set)
    assert page.find("#busy").is_displayed()
    assert page.text("#status") == "Translating…"
    page.translate("fast")
    assert page.texts(".best") == ["FAST"]
    status = page.text("#status")
    stub.may_respond.set()
    assert stub.responded.acquire(timeout=browser.PATIENCE)
    # If the page used the slow response, it would have read it before this one.
    page.driver.execute_async_script(
        "fetch('v1/models').then((response) => response.json()).then(arguments[0])"
    )
    assert page.texts(".best") == ["FAST"]
    assert page.text("#status") == status
    assert not page.find("#busy").is_displayed()
    requested = [text for inputs in stub.bodies("align") for text in inputs["text"]]
    assert "slow" not in requested


def test_second_click_does_not_send_again(page, stub):
    page.open().ready()
    page.write("slow")
    for _ in range(3):
        page.find("#translate").click()
    page.wait(stub.entered.is_set)
    page.find("#translate").click()
    stub.may_respond.set()
    page.wait_for(".best", "SLOW")
    page.wait_idle()
    assert stub.bodies("n_best") == [{"text": ["slow"]}]


def copied(page):
    """Returns the pasted text."""
    page.find("#text").clear()
    page.find("#text").send_keys(Keys.CONTROL, "v")
    return page.find("#text").get_attribute("value")


def test_translations_are_copied(page):
    page.open().ready()
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    page.translate("Hello little world", "", "Bye")
    page.find(".facts button[aria-label='Copy translation']").click()
    page.wait_for("#notice", "Copied.")
    assert copied(page) == "Hallo kleine Welt"
    page.find("button[aria-label='Copy translation 2']").click()
    page.wait(lambda: copied(page) == "Hallo Welt")
    # All translations, one line per line of the text.
    page.find("#copy-all").click()
    page.wait(lambda: copied(page) == "Hallo kleine Welt\n\nTschüss")


def test_translations_are_copied_without_a_secure_context(page, stub):
    """Over plain HTTP from another machine, browsers provide no clipboard API."""
    page.open().ready().translate("Hello little world")
    page.run("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    button = page.find("button[aria-label='Copy translation 2']")
    button.click()
    page.wait_for("#notice", "Copied.")
    assert page.focused() == button
    assert page.all("body > textarea") == []
    assert copied(page) == "Hallo Welt"


def test_page_allows_only_its_own_inline_script(page, stub):
    with urllib.request.urlopen(stub.url) as response:
        policy = response.headers["Content-Security-Policy"]
        html = response.read().decode()
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert re.findall(r"\son\w+=|\sstyle=|javascript:|https?://", html) == []
    assert re.findall(r"\{\{", html) == []
    page.open().ready()
    page.run(
        "const script = document.createElement('script');"
        "script.textContent = 'document.title = 1'; document.body.append(script)"
    )
    assert page.driver.title == "Translate"
    (entry,) = page.driver.get_log("browser")
    assert "Content Security Policy" in entry["message"]


def test_page_works_with_the_real_server(driver, tmp_path):
    model, tokenizers = exported.toy()
    exported.export(tmp_path / "toy" / "1", model, tokenizers)
    lines = exported.LINES[5:8]
    expected = exported.translator(model, tokenizers).translate(lines)
    arguments = ("--model_name=toy", f"--model_base_path={tmp_path / 'toy'}")
    limits = ("--max_request_rows=2", "--max_request_bytes=4096")
    with served.server(*arguments, *limits) as server:
        driver.get("about:blank")
        driver.get_log("browser")
        server.url += "/"
        page = Page(driver, server).open().ready()
        assert page.text("#version") == "Version 1"
        page.translate_and_align(*lines)
        shown = [best.text or "(no translation)" for best, *_ in expected]
        assert page.texts(".best") == shown
        scores = [f"Score {best.score:.3f}" for best, *_ in expected]
        figures = page.texts(".best + .facts .figures")
        assert [text.partition(" ·")[0] for text in figures] == scores
        page.point_at(page.find("article:first-child .best .word"))
        assert sum(page.weights("article:first-child .source .word")) > 0
        # The first warm-up request is an example.
        page.write("")
        page.find("#example").click()
        page.wait_for(".source", exported.LINES[0])
        page.wait_idle()
        # A line that is too long is not sent; the others are.
        page.translate(*lines, "the " * 2000, *lines)
        assert page.texts(".best") == [*shown, *shown]
        assert "at most 4096 bytes" in page.text(".gap")
        assert "6 of 7 sentences" in page.text("#status")
        assert driver.get_log("browser") == []


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
