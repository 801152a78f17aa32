"""The browser of the browser tests: the system's Chromium, else the one that playwright installed."""

import os
import shutil
from contextlib import contextmanager

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@contextmanager
def running():
    """A browser for the time of a `with`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


def launch(playwright):
    """A running browser; AssertionError with what to install when there is none."""
    own = playwright.chromium.executable_path
    path = next(filter(None, map(shutil.which, BROWSERS)), own if os.path.exists(own) else None)
    assert path, (
        "The browser tests need Chromium: make system-packages (sudo apt install chromium), or where apt has none: "
        ".venv/bin/playwright install --with-deps chromium"
    )
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
