"""Model selection on the translation page: version, languages and signatures."""

import sys

import browser
import page_in_browser
import pytest
from page_stub import SIGNATURES, signature
from selenium.webdriver.support.select import Select

pytest_plugins = [page_in_browser.__name__]
pytestmark = browser.needed


def choose(page, name):
    Select(page.find("#model")).select_by_visible_text(name)


def test_single_model_is_named_without_selection(page):
    page.open().ready()
    assert page.text("#model-name") == "en-de"
    assert page.text("#version") == "Version 3"
    assert not page.find("#model").is_displayed()
    assert not page.find("#model-label").is_displayed()


def test_selected_model_translates(page, stub):
    stub.models["de-en"] = stub.models["en-de"]
    page.open().ready()
    assert not page.find("#model-name").is_displayed()
    select = Select(page.find("#model"))
    assert [option.text for option in select.options] == ["en-de", "de-en"]
    stub.version = "4"
    choose(page, "de-en")
    page.wait_for("#version", "Version 4")
    stub.version = "10"
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    # A model may be replaced while the page is open; 10 is newer than 3, too.
    assert ", de-en, version 10, " in page.text("#status")
    assert page.text("#version") == "Version 10"
    paths = {path for method, path, _ in stub.requests if method == "POST"}
    assert paths == {"/v1/models/de-en:predict"}


def test_model_without_a_version_is_reported(page, stub):
    stub.models["empty"] = stub.models["en-de"]
    page.statuses = {404}
    page.open().ready()
    stub.version = None
    choose(page, "empty")
    page.wait_for("#version", "No version is available")
    page.wait(lambda: page.find("#error").is_displayed())
    assert "Could not find any versions of model empty" in page.text("#error")
    page.translate("Bye")
    assert page.text("#version") == "No version is available"
    assert page.texts(".best") == []
    assert stub.bodies("n_best") == []
    # Once it has a version, it does not have to be selected again.
    stub.version = "5"
    page.translate("Bye")
    assert page.text("#version") == "Version 5"
    assert page.texts(".best") == ["Tschüss"]


def test_version_of_the_last_selection_is_shown(page, stub):
    """The versions of quickly selected models do not mix."""
    stub.models |= {"a": stub.models["en-de"], "b": {}}
    page.open().ready()
    page.run(
        "const model = document.getElementById('model');"
        "for (const name of ['a', 'b', 'a']) {"
        "  model.value = name; model.dispatchEvent(new Event('change')); }"
    )
    page.wait_for("#version", "Version 3")
    page.translate("Bye")
    assert not page.find("#error").is_displayed()
    assert ", a, " in page.text("#status")


def test_new_version_during_a_translation_continues_it(page, stub):
    page.statuses = {400}
    page.open().ready()

    def swap(texts, name):
        # After the first request: a version with fewer signatures.
        if name == "n_best" and len(stub.bodies("n_best")) == 2:
            stub.version = "4"
            stub.models["en-de"] = {"serving_default": SIGNATURES["serving_default"]}
            return 400, {"error": "No signature n_best"}, {}
        return None

    stub.failure = swap
    lines = [f"line {number}" for number in range(20)]
    page.translate(*lines)
    assert page.texts(".best") == [line.upper() for line in lines]
    assert ", versions 3 and 4, " in page.text("#status")
    assert page.text("#version") == "Version 4"


def test_languages_and_examples_come_from_the_model(page, stub):
    stub.about = {
        "source_lang": "en",
        "target_lang": "de",
        "examples": ["Bye", "Unknown word"],
    }
    page.open().ready()
    assert page.text("#languages") == "English → German"
    page.find("#example").click()
    page.wait_for(".best", "Tschüss")
    page.wait_idle()
    assert page.find(".source").get_attribute("lang") == "en"
    assert page.find(".best").get_attribute("lang") == "de"
    # The next example replaces an example, but not the user's text.
    page.find("#example").click()
    page.wait_for(".best", "Unbekanntes Wort")
    page.wait_idle()
    page.write("mine")
    page.find("#example").click()
    page.wait_for(".best", "MINE", "Tschüss")
    page.wait_idle()
    assert page.find("#text").get_attribute("value") == "mine\nBye"


def test_model_without_n_best_shows_one_translation(page, stub):
    stub.models["en-de"] = {"serving_default": SIGNATURES["serving_default"]}
    page.open().ready().translate("Hello little world", "cut")
    assert page.texts(".best") == ["Hallo kleine Welt", "geschnitten"]
    first, second = page.texts("article")
    assert "Score -0.123" in first
    assert "maximum input length" in second
    assert "no alternatives and no alignment" in page.text("#status")
    assert page.texts(".word") == []
    inputs = {"text": ["Hello little world", "cut"]}
    assert stub.bodies("serving_default") == [inputs]
    assert stub.bodies("align") == []


def test_model_with_a_single_output_translates(page, stub, monkeypatch):
    """Servers omit the name of a single output, as TensorFlow Serving does."""
    stub.models["en-de"] = {"serving_default": signature(["text"], ["translation"])}
    monkeypatch.setattr(stub, "predict", lambda inputs, _: ["Tschüss"])
    page.open().ready().translate("Bye")
    assert page.texts(".best") == ["Tschüss"]


def test_model_without_alignment_translates(page, stub):
    del stub.models["en-de"]["align"]
    page.open().ready().translate("Hello little world")
    assert page.texts(".best") == ["Hallo kleine Welt"]
    assert "This model provides no alignment." in page.text("#status")
    assert not page.find("#error").is_displayed()


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("numbers", "serving_default (x: float [any] → y)"),
        ("other_name", "serving_default (sentence: string [any] → translation)"),
        ("nothing", "no signature"),
    ],
)
def test_missing_signatures_of_a_model_are_reported(page, stub, name, has):
    stub.models["en-de"] = {
        "numbers": {"serving_default": signature(["x"], ["y"], "DT_FLOAT")},
        "other_name": {"serving_default": signature(["sentence"], ["translation"])},
        "nothing": {"__saved_model_init_op": signature([], [])},
    }[name]
    page.open().ready()
    page.wait(lambda: page.find("#error").is_displayed())
    for _ in range(2):
        assert "needs the signature n_best (text: string" in page.text("#error")
        assert f"The model has: {has}." in page.text("#error")
        page.translate("Bye")
    assert {method for method, *_ in stub.requests} == {"GET"}


def test_first_model_that_translates_is_selected(page, stub):
    stub.models = {"a": {"serving_default": signature(["x"], ["y"])}, **stub.models}
    page.open().ready()
    assert page.find("#model").get_attribute("value") == "en-de"
    assert not page.find("#error").is_displayed()
    choose(page, "a")
    page.wait(lambda: "needs the signature" in page.text("#error"))


def test_text_may_be_sent_before_models_are_loaded(page, stub):
    stub.models, models = {}, stub.models
    page.open()
    page.wait(lambda: "no model" in page.find("#error").text)
    stub.models = models
    page.translate("Bye")
    assert page.texts(".best") == ["Tschüss"]
    assert page.text("#model-name") == "en-de"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
