"""A browser for BI tools; and a database in which results are published, with a reader."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests import engines
from tests.bi.database import Database, publish_in
from tests.bi.superset import PASSWORD

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1280,1000",
)


class Browser:
    """Superset as people see it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def sign_in(self, url: str) -> None:
        self.driver.get(f"{url}/login/")
        self._wait(lambda: self._find("[data-test=username-input]"))
        self._find("[data-test=username-input]")[0].send_keys("admin")
        self._find("[data-test=password-input]")[0].send_keys(PASSWORD)
        self._find("[data-test=login-button]")[0].click()
        self._wait(lambda: "/login" not in self.driver.current_url)

    def open(self, address: str, charts: int) -> None:
        self.driver.get(address)
        self._wait(lambda: len(self._find("[data-test=slice-container]")) >= charts)
        self._settle()

    def choose(self, value: str) -> None:
        """Choose a value in the only filter of the dashboard."""
        self._find("[data-test=filter-bar] .ant-select-selector")[0].click()
        self._find(".ant-select-open input")[0].send_keys(value)
        self._wait(lambda: self._find(f".ant-select-item-option[title='{value}']"))
        self._find(f".ant-select-item-option[title='{value}']")[0].click()
        self._find("[data-test=filter-bar__apply-button]")[0].click()
        self._settle()

    def text(self) -> str:
        return str(self._find("body")[0].text)

    def _settle(self) -> None:
        time.sleep(2)
        self._wait(lambda: not self._find("[data-test=loading-indicator]"))
        time.sleep(1)

    def _find(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def _wait(self, true: Callable[[], Any]) -> None:
        for _ in range(150):
            if true():
                return
            time.sleep(0.2)
        raise TimeoutError(self.text()[:1000])


@pytest.fixture
def browser() -> Iterator[Browser]:
    paths = [shutil.which("chromium") or "", shutil.which("chromedriver") or ""]
    if not all(path and Path(path).exists() for path in paths):
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(paths[1]))
    yield Browser(driver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        driver.quit()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder: Path = tmp_path_factory.mktemp("published")
    with engines.postgres() as engine:
        yield publish_in(engine.connection, folder)


@pytest.fixture
def expected(database: Database) -> pd.DataFrame:
    return database.rows()
