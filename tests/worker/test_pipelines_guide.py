"""docs/pipelines.md does what it says: its schedules load, and its tick flows to the report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml

from tests.schedules.schedules import MISFIRE_GRACE, connected
from wakeboard.schedules.desired_schedule import desired_from_files
from wakeboard.schedules.rules.job_schedule import load_job_schedule
from wakeboard.schedules.sync import sync

if TYPE_CHECKING:
    from tests.worker.conftest import Store

GUIDE = Path(__file__).parents[2] / "docs" / "pipelines.md"


def blocks(language: str) -> list[str]:
    """The guide's code blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.anyio
async def test_the_tick_of_the_guide_flows_to_the_report(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    schedules = [load_job_schedule(each, "guide") for each in yaml.safe_load_all(blocks("yaml")[0])]
    async with connected(store.dsn) as maintenance:
        await sync(maintenance, "file:guide", desired_from_files(schedules), prune=False, misfire_grace=MISFIRE_GRACE)
    store.watcher.do(
        "update wakeboard.job_definitions set next_run_at = date_trunc('minute', now()) where schedule is not null"
    )
    (store.folder / "sales.py").write_text(blocks("python")[0])
    monkeypatch.chdir(store.folder)
    store.wake(handlers="sales")
    (result,) = store.watcher.rows(
        "select result #>> '{}' from wakeboard.job_run_history where schedule = 'sales/report'"
    )[0]
    assert result.endswith(": 13.75 USD")


def test_the_other_blocks_of_the_guide_are_valid(database: str) -> None:
    assert load_job_schedule(yaml.safe_load(blocks("yaml")[1]), "guide").spec.after
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, "pipelines.md", "exec", dont_inherit=True), names)
    with psycopg.connect(database) as conn:
        names["ship_order"](conn, 7)
        waiting = conn.execute("select count(*) from wakeboard.job_runs where run_at > now() + interval '1 year'")
        assert waiting.fetchone() == (1,)
