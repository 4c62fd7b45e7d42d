"""The translation page's words and their relations, for all kinds of users."""

import sys

import browser
import page_in_browser
import pytest
from page_stub import ALIGNMENTS, HOSTILE, TRANSLATIONS
from selenium.webdriver.common.keys import Keys

pytest_plugins = [page_in_browser.__name__]
pytestmark = browser.needed

SENTENCE = "Hello little world"


def test_pointing_at_a_word_highlights_related_words(page):
    page.open().ready().translate_and_align("Bye", SENTENCE)
    last = "article:last-child"
    assert page.texts(f"{last} .source .word") == ["Hello", "little", "world"]
    assert page.texts(f"{last} .best .word") == ["Hallo", "kleine", "Welt"]
    assert page.weights(".word") == [0] * 10
    hallo, kleine, _ = page.all(f"{last} .best .word")
    page.point_at(hallo)
    assert page.weights(f"{last} .source .word") == pytest.approx(
        [0.8, 0.1, 0], abs=0.01
    )
    assert hallo.get_attribute("class") == "word chosen"
    text = "Hallo attends to Hello 80%, little 10%. Probability 61%."
    assert page.text("#notice") == text
    # A word of two tokens: mean attention, probability e^-0.3.
    page.point_at(kleine)
    expected = [0.05, 0.7, 0.2]
    assert page.weights(f"{last} .source .word") == pytest.approx(expected, abs=0.01)
    text = "kleine attends to little 70%, world 20%. Probability 74%."
    assert page.text("#notice") == text
    # From source to target, in all shown hypotheses.
    page.point_at(page.find(f"{last} .source .word:nth-child(2)"))
    expected = [0.1, 0.7, 0]
    assert page.weights(f"{last} .best .word") == pytest.approx(expected, abs=0.01)
    expected = [0, 0.35]
    weights = page.weights(f"{last} .alternative .word")
    assert weights == pytest.approx(expected, abs=0.01)
    assert page.weights(f"{last} .source .word") == [0, 0, 0]
    assert page.text("#notice") == "little is attended to by kleine 70%, Hallo 10%."
    page.point_at(page.find("h1"))
    assert page.weights(".word") == [0] * 10
    assert page.all(".chosen, .related") == []
    assert page.text("#notice") == ""


def test_alternatives_have_their_own_alignment(page):
    page.open().ready().translate_and_align(SENTENCE)
    assert page.texts(".alternative .word") == ["Hallo", "Welt"]
    page.point_at(page.find(".alternative .word:last-child"))
    expected = [0, 0.35, 0.65]
    assert page.weights(".source .word") == pytest.approx(expected, abs=0.01)
    text = "Welt attends to world 65%, little 35%. Probability 50%."
    assert page.text("#notice") == text
    assert page.weights(".best .word") == [0, 0, 0]


def test_only_visible_translations_are_aligned(page, stub):
    lines = [f"{SENTENCE}", *(f"line {number}" for number in range(300))]
    page.open().ready().translate(*lines)
    page.wait(lambda: page.texts("article:first-child .best .word"))
    requested = [row for body in stub.bodies("align") for row in body["translation"]]
    assert len(requested) < 100
    assert "Hallo Welt" not in requested
    page.find("article:first-child summary").click()
    page.wait_for("article:first-child .alternative .word", "Hallo", "Welt")
    last = "article:last-child"
    assert page.texts(f"{last} .word") == []
    page.run("arguments[0].scrollIntoView()", page.find(last))
    page.wait_for(f"{last} .best .word", "LINE", "299")
    requested = [row for body in stub.bodies("align") for row in body["translation"]]
    assert len(requested) == len(set(requested)) < 200


def test_failed_alignment_keeps_translations_and_other_alignments(page, stub):
    page.statuses = {500}
    page.open().ready()

    def fail(texts, signature):
        if signature == "align" and "Bye" in texts:
            return 500, {"error": "what the server said"}, {}
        return None

    stub.failure = fail
    page.translate("Bye", SENTENCE)
    page.wait_for("article:last-child .best .word", "Hallo", "kleine", "Welt")
    page.wait(lambda: page.texts(".unaligned"))
    first = page.text("article:first-child")
    assert "Tschüss" in first
    assert "No word alignment: The server failed. (what the server said)" in first
    assert not page.find("#error").is_displayed()


def test_words_are_taken_from_the_text(page):
    page.open().ready().translate_and_align("Unknown word", "Bye")
    # Split at white space, since a token has no text; the word count is the same.
    assert page.texts("article:first-child .word") == [
        *["Unknown", "word"],
        *["Unbekanntes", "Wort"],
    ]
    page.point_at(page.find("article:first-child .best .word"))
    expected = [0.8, 0.1]
    weights = page.weights("article:first-child .source .word")
    assert weights == pytest.approx(expected, abs=0.01)


def test_words_are_taken_from_tokens_if_they_differ(page, monkeypatch):
    monkeypatch.setitem(TRANSLATIONS, "Bye", (["Auf Wiedersehen"], [-0.1]))
    alignment = {
        "source": (["B", "##y", "##e", "."], [0, 0, 0, 1]),
        "target": (["auf", "wieder", "##sehen", "!"], [0, 1, 1, 2]),
        "log_probs": [-0.1] * 4,
        "attention": [[0.25] * 4] * 4,
    }
    monkeypatch.setitem(ALIGNMENTS, ("Bye", "Auf Wiedersehen"), alignment)
    page.open().ready().translate_and_align("Bye")
    assert page.texts(".source") == ["Bye ."]
    assert page.texts(".best .word") == ["auf", "wiedersehen", "!"]


def test_rest_of_a_truncated_sentence_is_shown(page, monkeypatch):
    monkeypatch.setitem(TRANSLATIONS, "cut, and more", (["Geschnitten,"], [-0.1]))
    alignment = {
        "source": (["cut", ","], [0, 1]),
        "target": (["Gesch", "##nitten", ","], [0, 0, 1]),
        "log_probs": [-0.1] * 3,
        "attention": [[0.5] * 2] * 3,
    }
    monkeypatch.setitem(ALIGNMENTS, ("cut, and more", "Geschnitten,"), alignment)
    page.open().ready().translate_and_align("cut, and more")
    assert page.texts(".source") == ["cut, and more"]
    assert page.texts(".best") == ["Geschnitten,"]
    assert page.texts(".word") == ["cut", ",", "Geschnitten", ","]


def test_everything_works_by_keyboard(page):
    page.open().ready()
    assert page.focused() == page.find("#text")
    page.focused().send_keys(SENTENCE)
    page.focused().send_keys(Keys.CONTROL, Keys.ENTER)
    page.wait_for(".alternative .word", "Hallo", "Welt")
    page.wait_idle()
    assert page.find("#text").get_attribute("value") == SENTENCE
    found = []
    for _ in range(9):
        page.focused().send_keys(Keys.TAB)
        found.append(page.focused().text.splitlines()[0])
    # The words of a card are one tab stop; arrow keys reach the alternatives.
    assert found == [
        *["Translate", "Example", "What the numbers mean"],
        *["Hallo", "Copy", "Words", "1 alternative", "Copy", "Words"],
    ]
    page.find("summary:not(#legend *)").send_keys(Keys.SHIFT, Keys.TAB * 3)
    assert page.focused().text == "Hallo"
    weights = page.weights(".source .word")
    assert weights == pytest.approx([0.8, 0.1, 0], abs=0.01)
    # A passing pointer does not remove the focused word's highlights.
    page.point_at(page.find(".best .word:last-child"))
    page.point_at(page.find("h1"))
    assert page.weights(".source .word") == weights
    assert page.press(Keys.ARROW_RIGHT) == "kleine"
    assert page.press(Keys.END) == "Welt"
    assert page.press(Keys.ARROW_RIGHT) == "Welt"
    assert page.press(Keys.ARROW_UP) == "world"
    assert page.press(Keys.HOME) == "Hello"
    assert page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN) == "Hallo"
    assert page.focused() == page.find(".alternative .word")
    assert page.press(Keys.ARROW_DOWN, Keys.END) == "Welt"
    assert page.press(Keys.ARROW_UP, Keys.ARROW_LEFT) == "Hallo"
    # The focus returns to the last word.
    page.press(Keys.ARROW_RIGHT, Keys.TAB)
    page.focused().send_keys(Keys.SHIFT, Keys.TAB)
    assert page.focused().text == "kleine"
    page.press(Keys.ESCAPE)
    assert page.weights(".source .word") == [0, 0, 0]
    assert page.text("#notice") == ""


def test_arrows_follow_the_direction_of_the_text(page):
    page.open().ready().translate_and_align("shalom")
    first, second, third = page.all(".best .word")
    assert first.location["x"] > second.location["x"] > third.location["x"]
    first.click()
    assert page.press(Keys.ARROW_LEFT) == second.text
    assert page.press(Keys.ARROW_LEFT) == third.text
    assert page.press(Keys.ARROW_RIGHT) == second.text
    page.write("שלום")
    direction = "return getComputedStyle(arguments[0]).direction"
    assert page.run(direction, page.find("#text")) == "rtl"


def test_relations_do_not_rely_on_color_alone(page):
    page.open().ready().translate_and_align(SENTENCE)
    looks = """return [...document.querySelectorAll('.source .word')].map((word) => {
      const { textDecorationLine, textDecorationThickness, outlineStyle } =
        getComputedStyle(word);
      return [textDecorationLine, parseFloat(textDecorationThickness), outlineStyle];
    })"""
    plain = page.run(looks)
    assert {(line, outline) for line, _, outline in plain} == {("none", "none")}
    page.point_at(page.find(".best .word:nth-child(2)"))
    _, little, world = page.run(looks)
    assert little[0] == world[0] == "underline"
    assert little[1] > world[1]
    assert (little[2], world[2]) == ("dashed", "none")
    chosen = "return getComputedStyle(document.querySelector('.chosen')).outlineStyle"
    assert page.run(chosen) == "solid"


def test_words_are_available_as_a_table(page):
    page.open().ready().translate_and_align(SENTENCE)
    button = page.find("button[aria-label='Words of translation']")
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    assert page.texts("thead th") == ["Word", "Probability", "Attends to"]
    assert page.texts("tbody tr") == [
        "Hallo\t61%\tHello 80%, little 10%",
        "kleine\t74%\tlittle 70%, world 20%",
        "Welt\t95%\tworld 90%",
    ]
    button.click()
    assert page.all("table") == []


def test_live_regions_hold_short_texts_only(page):
    page.open().ready().translate_and_align(SENTENCE, "Bye", "cut")
    page.find("button[aria-label='Words of translation']").click()
    page.point_at(page.find(".best .word"))
    live = "[aria-live], [role=status], [role=alert], [role=log], output"
    texts = [text for text in page.texts(live) if text]
    assert len(texts) == 3  # The version, the status and the word.
    assert max(map(len, texts)) < 100
    assert page.all(f":is({live}) :is(p, article, table, button, section)") == []
    selector = f"article:is({live}), :is({live}) article"
    assert page.all(selector) == []


def test_every_control_has_a_name_and_every_focus_is_visible(page):
    page.open().ready().translate_and_align(SENTENCE)
    names = page.run(
        "return [...document.querySelectorAll('button, select, textarea, progress')]"
        ".map((control) => control.ariaLabel || control.labels?.[0]?.innerText ||"
        " control.innerText || control.textContent)"
    )
    assert all(name.strip() for name in names)
    outline = "return parseFloat(getComputedStyle(document.activeElement).outlineWidth)"
    page.find("#text").click()
    for _ in range(9):
        page.focused().send_keys(Keys.TAB)
        assert page.run(outline) >= 2


def test_touch_highlights_words_and_hides_key_hints(page):
    page.open().ready()
    assert "Ctrl+Enter translates" in page.text("#hint").replace(" +", "+")
    with page.phone():
        page.open().ready().translate_and_align(SENTENCE)
        assert "Enter" not in page.text("#hint")
        page.find(".best .word:nth-child(2)").click()
        expected = [0.05, 0.7, 0.2]
        assert page.weights(".source .word") == pytest.approx(expected, abs=0.01)
        assert "kleine attends to little" in page.text("#notice")


@pytest.mark.parametrize("width", [320, 360])
def test_nothing_is_wider_than_a_phone(page, width):
    with page.phone(width, 2000):
        page.open().ready().translate_and_align(SENTENCE, HOSTILE, "x" * 200)
        for button in page.all("button[aria-expanded]"):
            page.run("arguments[0].click()", button)
        page.find("#legend summary").click()
        assert page.run("return document.documentElement.scrollWidth") == width


def test_page_is_usable_at_200_percent_zoom(page):
    # Like a window of 1,280 by 900 points at 200%.
    with page.phone(640, 450, touch=False):
        page.open().ready().translate_and_align(SENTENCE)
        assert page.run("return document.documentElement.scrollWidth") <= 640
        word = page.find(".best .word:last-child")
        page.run("arguments[0].focus()", word)
        boxes = page.run(
            "return [arguments[0], arguments[1]].map((one) => {"
            "  const { top, bottom } = one.getBoundingClientRect();"
            "  return [top, bottom]; })",
            word,
            page.find("#notice"),
        )
        (top, bottom), (notice_top, notice_bottom) = boxes
        assert bottom <= notice_top or notice_bottom <= top


def test_reduced_motion_disables_animations(page, stub):
    media = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        page.open().ready()
        page.write("slow")
        page.find("#translate").click()
        page.wait(stub.entered.is_set)
        assert page.find("#busy").is_displayed()
        assert page.run("return document.getAnimations().length") == 0
        stub.may_respond.set()
        page.wait_for(".best", "SLOW")
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
