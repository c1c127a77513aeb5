"""A headless Chromium for tests of pages: opens files, measures layouts, and records requests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--force-prefers-reduced-motion",
    "--hide-scrollbars",
)
PROBES = {path.stem: path.read_text("utf-8") for path in Path(__file__).parent.glob("*.js")}
"""Scripts that measure a page, by name."""


class Browser:
    """A browser window. Skips if Chromium, its driver or selenium is missing."""

    def __init__(self) -> None:
        webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        driver = shutil.which("chromedriver")
        if chromium is None or driver is None:
            pytest.skip("there is no chromium with chromedriver here")
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver: Any = webdriver.Chrome(options, webdriver.ChromeService(driver))

    def close(self) -> None:
        self.driver.quit()

    def resize(self, width: int, height: int = 900) -> None:
        """Set the size of the viewport in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.settle()

    def prefer(self, scheme: str) -> None:
        """Set the preferred colour scheme, "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.settle()

    def open(self, path: Path) -> None:
        self.driver.get(path.as_uri())
        assert self.run("return document.documentElement.dataset.drawn") == "yes"
        self.settle()

    def settle(self) -> None:
        """Wait until figures are drawn at their new size: two frames."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));"
        )

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return its result."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> Sequence[Any]:
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of elements, also of those that are scrolled out of sight."""
        words = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        return self.run(words, selector)

    def hover(self, found: Any) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        self.run("arguments[0].scrollIntoView({ block: 'center' })", found)
        ActionChains(self.driver).move_to_element(found).perform()

    def press(self, *keys: str) -> None:
        """Press keys on the element that has the focus."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def screenshot(self, path: Path) -> bytes:
        """Write the viewport to a PNG file, and return its bytes."""
        assert self.driver.save_screenshot(str(path))
        return path.read_bytes()

    def console(self) -> list[str]:
        """The messages of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses requested since the last call."""
        entries = (json.loads(e["message"])["message"] for e in self.driver.get_log("performance"))
        return [
            entry["params"]["request"]["url"]
            for entry in entries
            if entry["method"] == "Network.requestWillBeSent"
        ]
