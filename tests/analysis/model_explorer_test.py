"""Tests of the explorer page in a browser."""

import sys

import browser
import exported
import numpy as np
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from t2t_keras.analysis.attention_maps import KINDS, attention_maps
from t2t_keras.analysis.model_explorer import explorer_page
from t2t_keras.layers.positional_encoding import sinusoidal_encoding

pytestmark = browser.needed

SOURCE, TARGET = "the 3 a dog 4", "no 12"
HOSTILE = "no </script><script>document.title = 'hacked'</script> {{style.css}}"


@pytest.fixture(scope="module")
def driver():
    driver = browser.start()
    yield driver
    driver.quit()


class Explorer:
    """The explorer page of a model and a sentence pair."""

    def __init__(self, driver, path, target=TARGET, **arguments):
        self.driver = driver
        self.model, tokenizers = exported.toy(num_decoder_layers=3, **arguments)
        self.maps = attention_maps(self.model, tokenizers, SOURCE, target)
        page = explorer_page(self.model, self.maps, SOURCE, target, "a toy")
        path.write_text(page, encoding="utf-8")
        driver.get(path.as_uri())

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def choose(self, selector, number):
        Select(self.find(selector)).select_by_index(number)

    def stacks(self):
        return self.driver.find_elements(By.CSS_SELECTOR, "#architecture .times")

    def map(self, kind, layer):
        return next(m for m in self.maps if (m.kind, m.layer) == (kind, layer))

    def lines(self):
        """Returns the colour of the head, the two rows and the weight of each line."""
        return self.driver.execute_script(
            """const row = (y) => (Number(y) - 16) / 24;
            return [...document.querySelectorAll("#lines line")].map((line) => {
              const [colour, y1, y2, opacity] = ["stroke", "y1", "y2", "stroke-opacity"]
                .map((name) => line.getAttribute(name));
              return [colour, row(y1), row(y2), Number(opacity)];
            })"""
        )

    def matrix(self, name):
        return self.driver.execute_script(
            "const steps = attend(state.kind, state.layer, state.head);"
            "return [steps[arguments[0]].rows, [...steps[arguments[0]].values]]",
            name,
        )


@pytest.fixture
def explorer(driver, tmp_path):
    driver.get("about:blank")
    driver.get_log("browser")
    yield Explorer(driver, tmp_path / "page.html")
    assert driver.get_log("browser") == []
    entries = driver.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert all(name.startswith("data:") for name in entries), entries


def test_lines_match_the_weights_of_the_model(explorer):
    colours = explorer.driver.execute_script("return data.colours")
    for number, kind in enumerate(("encoder", "decoder", "cross")):
        explorer.choose("#kind", number)
        for layer in range(2):
            explorer.choose("#layer", layer)
            weights = explorer.map(kind, layer).weights
            drawn = np.zeros_like(weights)
            for colour, row, column, weight in explorer.lines():
                drawn[colours.index(colour), round(row), round(column)] = weight
            # Weights below 0.02 are not drawn. The opacity has three digits.
            expected = np.where(weights < 0.02, 0, weights)
            np.testing.assert_allclose(drawn, expected, atol=6e-4)


def test_layer_menu_matches_the_kind_of_attention(explorer):
    for number, layers in enumerate((2, 3, 3)):
        explorer.choose("#kind", number)
        assert len(Select(explorer.find("#layer")).options) == layers


def test_heads_can_be_switched_on_and_off(explorer):
    first, _ = explorer.driver.find_elements(By.CSS_SELECTOR, "#heads button")
    first.click()
    colours = explorer.driver.execute_script("return data.colours")
    assert {line[0] for line in explorer.lines()} == {colours[1]}
    assert first.get_attribute("aria-pressed") == "false"

    # On a slow machine two clicks may be too far apart for a double click, so retry.
    def alone(driver):
        ActionChains(driver).double_click(first).perform()
        return {line[0] for line in explorer.lines()} == {colours[0]}

    WebDriverWait(explorer.driver, browser.PATIENCE).until(alone)
    explorer.find("#all-heads").click()
    assert {line[0] for line in explorer.lines()} == set(colours)


def test_selected_word_shows_only_its_lines(explorer):
    word = explorer.find("[data-side=query][data-index='1']")
    ActionChains(explorer.driver).move_to_element(word).perform()
    assert {line[1] for line in explorer.lines()} == {1}
    assert explorer.find("#lines-text").text.startswith("▁no attends to: ")
    ActionChains(explorer.driver).move_to_element(explorer.find("h1")).perform()
    assert len({line[1] for line in explorer.lines()}) > 1
    # A click keeps it, and takes it to the steps below.
    explorer.find("[data-side=key][data-index='2']").click()
    ActionChains(explorer.driver).move_to_element(explorer.find("h1")).perform()
    assert {line[2] for line in explorer.lines()} == {2}
    assert "is attended to by" in explorer.find("#lines-text").text
    assert explorer.find("#key").get_attribute("value") == "2"


def test_words_are_one_tab_stop_and_arrow_keys_move_between_them(explorer):
    driver = explorer.driver

    def press(*keys):
        driver.switch_to.active_element.send_keys(*keys)
        return driver.switch_to.active_element

    stops = driver.find_elements(By.CSS_SELECTOR, "#lines [tabindex='0']")
    assert len(stops) == 1
    explorer.find("#all-heads").send_keys(Keys.TAB)
    first = driver.switch_to.active_element
    assert first == stops[0] == explorer.find("[data-side=query][data-index='0']")
    # The focused word shows its lines, and those of each head as text.
    second = press(Keys.ARROW_DOWN)
    assert {line[1] for line in explorer.lines()} == {1}
    text = explorer.find("#lines-text").text
    assert text.startswith("▁no attends to: ")
    weights = explorer.map("cross", 0).weights[:, 1]
    keys = explorer.map("cross", 0).key_tokens
    most = ", ".join(f"{h + 1} {keys[w.argmax()]}" for h, w in enumerate(weights))
    assert f"Most, by head: {most}." in text
    assert press(Keys.ARROW_RIGHT).get_attribute("data-side") == "key"
    assert press(Keys.END).get_attribute("data-index") == str(len(keys) - 1)
    assert press(Keys.HOME, Keys.ARROW_UP).get_attribute("data-index") == "0"
    assert press(Keys.ARROW_DOWN, Keys.ARROW_LEFT) == second
    press(Keys.ENTER)
    assert second.get_attribute("aria-pressed") == "true"
    assert explorer.find("#query").get_attribute("value") == "1"
    # The word stays pinned without focus, and Tab returns to it.
    press(Keys.TAB)
    assert {line[1] for line in explorer.lines()} == {1}
    assert press(Keys.SHIFT, Keys.TAB) == second


def test_shift_click_shows_only_one_head(explorer):
    second = explorer.find("#heads button:nth-of-type(2)")
    ActionChains(explorer.driver).key_down(Keys.SHIFT).click(second).key_up(
        Keys.SHIFT
    ).perform()
    colours = explorer.driver.execute_script("return data.colours")
    assert {line[0] for line in explorer.lines()} == {colours[1]}


@pytest.mark.parametrize("width", [320, 375])
def test_phone_shows_both_sides_and_scrolls_by_keys(explorer, width):
    command, run = explorer.driver.execute_cdp_cmd, explorer.driver.execute_script
    size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    command("Emulation.setDeviceMetricsOverride", size)
    try:
        WebDriverWait(explorer.driver, browser.PATIENCE).until(
            lambda _: run("return at('lines').firstChild.clientWidth") < width
        )
        assert run("return document.documentElement.scrollWidth") == width
        boxes = run(
            "return [...document.querySelectorAll('#lines text, #lines line')]"
            ".map((one) => one.getBoundingClientRect())"
            ".flatMap(({ left, right }) => [left, right])"
        )
        assert min(boxes) >= 0
        assert max(boxes) <= width
        tab_indices = run(
            "return [...document.querySelectorAll('main *')].filter((one) =>"
            "  getComputedStyle(one).overflowX === 'auto'"
            "  && one.scrollWidth > one.clientWidth).map((one) => one.tabIndex)"
        )
        assert set(tab_indices) == {0}
    finally:
        command("Emulation.clearDeviceMetricsOverride", {})


def test_head_numbers_have_sufficient_contrast(explorer):
    colours = [
        explorer.driver.execute_script(
            "const { color, backgroundColor } = getComputedStyle(arguments[0]);"
            "return [color, backgroundColor].map((c) => c.match(/\\d+/g).map(Number))",
            button,
        )
        for button in explorer.driver.find_elements(By.CSS_SELECTOR, ".head")
    ]
    for pair in colours:
        # WCAG 2 requires a contrast of at least 4.5.
        parts = np.array(pair) / 255
        linear = np.where(
            parts > 0.04045, ((parts + 0.055) / 1.055) ** 2.4, parts / 12.92
        )
        dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_steps_match_the_computation_of_the_model(explorer):
    explorer.choose("#kind", 1)
    explorer.choose("#layer", 2)
    explorer.choose("#head", 1)
    attention = explorer.map("decoder", 2)
    query, key, value, weights = (x[1] for x in attention[4:])
    scores = query @ key.T
    for name, expected in {
        "Q": query,
        "scores": scores,
        "scaled": scores / 8**0.5,
        "weights": weights,
        "output": weights @ value,
    }.items():
        rows, values = explorer.matrix(name)
        assert rows == len(expected)
        np.testing.assert_allclose(values, expected.ravel(), atol=1e-5)
    explorer.choose("#query", 2)
    explorer.choose("#key", 1)
    texts = [p.text for p in explorer.driver.find_elements(By.CSS_SELECTOR, "li p")]
    assert f" = {scores[2, 1]:.2f}: the sum of 8 products" in texts[1]
    assert "sees 3 of" in texts[3]
    assert len(texts) == 6


def test_later_words_are_masked(explorer):
    explorer.choose("#kind", 1)
    explorer.choose("#query", 0)
    explorer.choose("#key", 2)
    texts = [p.text for p in explorer.driver.find_elements(By.CSS_SELECTOR, "li p")]
    assert "is not among them" in texts[3]
    assert "does not attend to" in texts[4]


def test_words_outside_the_window_are_masked(driver, tmp_path):
    explorer = Explorer(driver, tmp_path / "page.html", attention_window=2)
    weights = driver.execute_script(
        "return ['encoder', 'decoder']"
        ".map((kind) => [...attend(kind, 1, 0).weights.values])"
    )
    for kind, values in zip(("encoder", "decoder"), weights, strict=True):
        expected = explorer.map(kind, 1).weights[0]
        assert expected[0, 2] == 0 < expected[1, 0]
        np.testing.assert_allclose(values, expected.ravel(), atol=1e-5)
    explorer.choose("#kind", 0)
    explorer.choose("#query", 0)
    texts = [p.text for p in explorer.driver.find_elements(By.CSS_SELECTOR, "li p")]
    assert "all words that are at most 1 away" in texts[3]
    assert "sees 2 of" in texts[3]


def test_click_on_a_cell_selects_query_and_key(explorer):
    cells = explorer.find("figure[aria-label='weights'] .cells")
    # Offset from the centre to row 3, column 2. Cells are 14 pixels wide.
    across, down = (cells.size[side] // 2 for side in ("width", "height"))
    explorer.driver.execute_script("arguments[0].scrollIntoView()", cells)
    ActionChains(explorer.driver).move_to_element_with_offset(
        cells, 21 - across, 35 - down
    ).click().perform()
    assert explorer.find("#query").get_attribute("value") == "2"
    assert explorer.find("#key").get_attribute("value") == "1"


def test_positions_match_the_encoding_of_the_model(explorer):
    explorer.driver.execute_script(
        "at('dimension').value = 5; at('dimension').dispatchEvent(new Event('input'))"
    )
    points = explorer.driver.execute_script(
        "return [...document.querySelectorAll('#position-curves circle')]"
        ".map((point) => Number(point.dataset.value))"
    )
    expected = sinusoidal_encoding(np.arange(len(points)), 16).numpy()[:, 5]
    np.testing.assert_allclose(points, expected, atol=1e-6)
    assert "cos(pos / 10000^(4/16))" in explorer.find("#dimension-text").text


@pytest.mark.parametrize(
    ("position", "formula"),
    [
        ("sinusoidal_concat", "cos(pos / 10000^(4/16))"),
        ("sinusoidal_marian", "cos(pos / 10000^(2/7))"),
    ],
)
def test_positions_of_another_layout_have_its_formula(
    driver, tmp_path, position, formula
):
    own = {"tie_output": False, "logits_bias": True, "share_embeddings": False}
    explorer = Explorer(driver, tmp_path / "page.html", position=position, **own)
    points = driver.execute_script(
        "at('dimension').value = 10; at('dimension').dispatchEvent(new Event('input'));"
        "return [...document.querySelectorAll('#position-curves circle')]"
        ".map((point) => Number(point.dataset.value))"
    )
    encoding = explorer.model.source_position.encoding(np.arange(len(points)))
    np.testing.assert_allclose(points, encoding[:, 10], atol=1e-6)
    assert f"10: {formula}" in explorer.find("#dimension-text").text
    assert "each pair" in explorer.find("#position-text").text.lower()
    shown = explorer.find("#architecture-picture").text
    assert "Linear: its own matrix, and a bias" in shown
    assert f"{40 * 16 + 40} learned" in shown
    assert "share one embedding" not in shown
    assert driver.get_log("browser") == []


def test_learned_positions_match_the_table_of_the_model(driver, tmp_path):
    explorer = Explorer(driver, tmp_path / "page.html", position="learned")
    values = driver.execute_script("return [...encoding.values]")
    table = explorer.model.source_position.table.numpy()[:64]
    np.testing.assert_allclose(values, table.ravel(), atol=1e-6)
    assert "has learned its position vectors" in explorer.find("#position-text").text


@pytest.mark.parametrize("pre_norm", [False, True])
def test_architecture_shows_shapes_and_sizes_of_the_model(driver, tmp_path, pre_norm):
    explorer = Explorer(driver, tmp_path / "page.html", pre_norm=pre_norm)
    text = explorer.find("#architecture-picture").text
    source = len(explorer.map("encoder", 0).key_tokens)
    target = len(explorer.map("decoder", 0).key_tokens)
    assert f"2 heads of [{target}, {source}]" in text
    assert f"[1, {target}, 40]" in text
    layers = [side.text.split()[0] for side in explorer.stacks()]
    assert layers == ["2", "3"]
    total = sum(int(np.prod(v.shape)) for v in explorer.model.trainable_variables)
    assert f"{total:,} parameters in total" in text
    assert text.count("Norm" if pre_norm else "Add & norm") == (7 if pre_norm else 5)


def test_ssru_decoder_is_part_of_the_architecture_but_not_of_the_attention(
    driver, tmp_path
):
    explorer = Explorer(driver, tmp_path / "page.html", decoder_autoregression="ssru")
    kinds = Select(explorer.find("#kind")).options
    assert [kind.text for kind in kinds] == [KINDS["encoder"], KINDS["cross"]]
    text = explorer.find("#architecture-picture").text
    assert "Recurrent unit (SSRU)" in text
    assert "Masked self-attention" not in text
    assert driver.get_log("browser") == []


def test_user_text_is_not_interpreted_as_html(driver, tmp_path):
    explorer = Explorer(driver, tmp_path / "page.html", HOSTILE)
    assert driver.title == "A Transformer, seen"
    assert explorer.find("#translation").text == HOSTILE


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
