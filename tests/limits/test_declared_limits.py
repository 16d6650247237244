"""The maintenance of an operator declares the limits of its file, and leaves them while the file is invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.schedules.schedules import MISFIRE_GRACE, rows
from wakeboard.declared.reloaded_file import ReloadedFile
from wakeboard.engine.retention import Retention
from wakeboard.limits.file import load_limit_file
from wakeboard.maintenance import LIMITS_INTERVAL_S, MaintenanceLoop
from wakeboard.settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

FILE = "{apiVersion: wakeboard.dev/v1alpha1, kind: Limits, limits: {api: {rate: %s}}}"


async def test_only_a_valid_changed_file_changes_the_limit(store: MaintenanceStore, tmp_path: Path):
    path, problems = tmp_path / "limits.yaml", list[str]()
    file = ReloadedFile(path, load_limit_file, problems.extend)
    loop = MaintenanceLoop(
        misfire_grace=MISFIRE_GRACE,
        retention=Retention.from_settings(read_settings()),
        limits=file.content,
        source="k8s:one",
    )
    passes = iter(range(100))

    async def limit_after(text: str | None) -> list[tuple[int | None, ...]]:
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        done = await loop.run_due(store, next(passes) * LIMITS_INTERVAL_S)
        assert done.failures == {}
        return await rows(store, "select rate_count from job_limits where key = 'api'")

    assert await limit_after(FILE % "60/minute") == [(60,)]
    assert await limit_after(FILE % "600/minute") == [(600,)]
    for bad in ("", FILE % "0/minute", FILE % "9/fortnight", FILE % "{", None):
        problems.clear()
        assert await limit_after(bad) == [(600,)]
        assert problems
    assert await limit_after(FILE % "5/minute") == [(5,)]
    (actor, source) = (await rows(store, "select distinct actor, source from audit_log"))[0]
    assert (actor, source) == ("k8s:one", "kubectl")
