"""The translation page in a browser, for tests.

A test module with `pytest_plugins = [page_in_browser.__name__]` has the fixtures.
PYTEST_DONT_REWRITE: it imports names of this module before pytest sees it.
"""

import contextlib
import threading

import browser
import pytest
from page_stub import Stub
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait


class Page:
    """The page in the browser.

    Attributes:
        statuses: Expected HTTP statuses other than 200.
    """

    def __init__(self, driver, stub):
        self.driver = driver
        self.stub = stub
        self.statuses = set()

    def open(self):
        self.driver.get(self.stub.url)
        return self

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        # In one script, since the page may be changing.
        return self.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((element) => element.innerText)",
            selector,
        )

    def text(self, selector):
        (text,) = self.texts(selector)
        return text

    def wait(self, condition):
        return WebDriverWait(self.driver, browser.PATIENCE, 0.05).until(
            lambda _: condition()
        )

    def wait_for(self, selector, *texts):
        self.wait(lambda: self.texts(selector) == list(texts))

    def ready(self):
        """Waits until the models and their version are shown."""
        self.wait(lambda: self.texts("#version") != [""])
        return self

    def write(self, *lines):
        # Like typing, but instantly.
        self.run(
            "const text = arguments[0]; text.value = arguments[1];"
            "text.dispatchEvent(new Event('input', { bubbles: true }))",
            self.find("#text"),
            "\n".join(lines),
        )

    def translate(self, *lines):
        """Translates, and waits for the result."""
        self.write(*lines)
        self.find("#translate").click()
        self.wait_idle()

    def translate_and_align(self, *lines):
        """Translates, and waits for the words of every visible translation."""
        self.translate(*lines)
        shown = ".best:has(+ .facts button), details[open] .alternative"
        unaligned = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".every((text) => text.querySelector('.word'))"
        )
        self.wait(lambda: self.run(unaligned, shown))

    def wait_idle(self):
        self.wait(lambda: self.find("#results").get_attribute("aria-busy") == "false")

    def focused(self):
        return self.driver.switch_to.active_element

    def press(self, *keys):
        """Presses keys one by one; returns the focused element's text."""
        for key in keys:
            self.focused().send_keys(key)
        return self.focused().text

    def weights(self, selector):
        """Returns the highlight strength of each word: its background's opacity."""
        return self.run(
            """return [...document.querySelectorAll(arguments[0])].map((word) => {
                 const color = getComputedStyle(word).backgroundColor;
                 const alpha = color.match(/^rgba\\(.*, ([\\d.]+)\\)$/);
                 return alpha ? Number(alpha[1]) : 1;
               })""",
            selector,
        )

    def point_at(self, element):
        ActionChains(self.driver).move_to_element(element).perform()

    @contextlib.contextmanager
    def phone(self, width=360, height=740, touch=True):
        """Emulates a phone of the given size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
        command = self.driver.execute_cdp_cmd
        command("Emulation.setDeviceMetricsOverride", {**metrics, "mobile": touch})
        command("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        try:
            yield
        finally:
            command("Emulation.setTouchEmulationEnabled", {"enabled": False})
            command("Emulation.clearDeviceMetricsOverride", {})

    def check(self):
        """Checks for requests to other servers and for console errors."""
        urls = self.run(
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
        stub.may_respond.set()
        stub.shutdown()
        thread.join()


@pytest.fixture
def page(driver, stub):
    driver.get("about:blank")
    driver.get_log("browser")
    page = Page(driver, stub)
    yield page
    page.check()
