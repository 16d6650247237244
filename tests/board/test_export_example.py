"""The page of examples/export follows a run of its application in Chromium, from another origin than the board's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testbed.board_server import serving_board
from testbed.clients import node_packages
from testbed.processes import OUR_PACKAGES, ROOT, ModuleProcess, as_variables, wait_for
from tests.board.test_api_events import often
from tests.board.test_watch import RefusingAccess
from tests.local.test_applications import answers, free_port
from wakeboard.board import BoardOptions
from wakeboard.board.access.run_tokens import RunTokenAccess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.async_api import Page

pytestmark = pytest.mark.anyio
__all__ = ["often"]


@pytest.fixture
def application(database: str, tmp_path: Path, often: None) -> Iterator[str]:
    """The address of the application, which runs with a worker and a board."""
    secrets, port = tmp_path / "secrets", free_port()
    secrets.write_text("s" * 40)
    address = f"http://127.0.0.1:{port}"
    options = BoardOptions(dsn=database, access=RefusingAccess(), run_tokens=RunTokenAccess(secrets, [address]))
    with serving_board(options) as board:
        environment = as_variables({"dsn": database, "handlers": "handlers", "poll_seconds": 0.05})
        environment |= {"PYTHONPATH": f"{OUR_PACKAGES}:{ROOT / 'examples' / 'export'}", "PORT": str(port)}
        environment |= {
            "WAKEBOARD_BOARD_URL": board.address,
            "WAKEBOARD_BOARD_WATCH_SECRETS_FILE": str(secrets),
        }
        with (
            ModuleProcess(["app"], tmp_path, environment) as app,
            ModuleProcess(["wakeboard_worker", "--forever"], tmp_path, environment),
        ):
            wait_for(lambda: answers(port), why=lambda: app.log)
            yield address


@pytest.fixture
def react() -> str:
    """React as one module: its files are CommonJS, which a build would bundle."""
    folder = node_packages() / "node_modules"
    files = {
        "react": "react/cjs/react.production.js",
        "scheduler": "scheduler/cjs/scheduler.production.js",
        "react-dom": "react-dom/cjs/react-dom.production.js",
        "react-dom/client": "react-dom/cjs/react-dom-client.production.js",
    }
    modules = "".join(f'"{name}"(exports) {{ {(folder / file).read_text()} }},\n' for name, file in files.items())
    return f"""
        const modules = {{ {modules} }}, loaded = {{}};
        function require(name) {{
          if (!(name in loaded)) modules[name](loaded[name] = {{}});
          return loaded[name];
        }}
        export const {{ createElement, useEffect, useState }} = require("react");
        export const {{ createRoot }} = require("react-dom/client");
    """


SHOW_WITH_REACT = """async () => {
  const { createElement, createRoot } = await import("/react.js");
  const { RunProgress } = await import("/RunProgress.js");
  const { watch, file } = await (await fetch("/exports", { method: "POST", body: "{}" })).json();
  createRoot(document.body).render(createElement(RunProgress, { address: watch, file }));
}"""


async def test_the_page_shows_a_running_export_and_its_download(application: str, react: str, page: Page):
    problems: list[str] = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    await page.route("**/react.js", lambda route: route.fulfill(body=react, content_type="text/javascript"))
    component = (ROOT / "examples/export/RunProgress.js").read_text().replace('"react"', '"/react.js"')
    await page.route("**/RunProgress.js", lambda route: route.fulfill(body=component, content_type="text/javascript"))
    await page.goto(application)
    await page.get_by_role("button").click()
    await page.get_by_role("status").filter(has_text="of 10").wait_for()
    await page.get_by_text("Write the rows: running").wait_for()
    await page.get_by_role("status").filter(has_text="is ready").wait_for()
    await page.get_by_text("Write the rows: done").wait_for()
    assert await page.locator("progress").get_attribute("value") == "1"
    link = await page.get_by_role("link").get_attribute("href")
    assert link
    file = await page.request.get(application + link)
    assert (await file.text()).splitlines()[-1] == "9"
    assert (await page.request.get(application + link[:-1])).status == 403
    await page.evaluate(SHOW_WITH_REACT)
    await page.get_by_role("link", name="Download").wait_for()
    await page.get_by_text("Write the rows: done").wait_for()
    assert problems == []
