"""The job type `job` with pods that really run: how they end is what a real scheduler and a real kubelet report."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.busybox_images import BUSYBOX
from testbed.cluster.job_pods import make_job_account
from tests.cluster.job_pool import Pool
from wakeboard.engine.run import Run
from wakeboard_worker.builtin.jobs import attempt as attempt_module

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from testbed.cluster.node import Node

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

NAMESPACE = "container-jobs"
LONG_LINE = 20_000_000  # bytes; the runtime splits it, and an attempt reads the end
ENDLESS_S = 5.0
IGNORES_SIGTERM = "trap '' TERM; while true; do sleep 1; done"


@pytest.fixture(scope="module")
def account(real_node: Node) -> str:
    """A token with the rights of the handler."""
    real_node.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return make_job_account(real_node, NAMESPACE)


@pytest.fixture
async def pool(real_node: Node, account: str, tmp_path: Path) -> AsyncIterator[Pool]:
    (tmp_path / "token").write_text(account)
    pool = Pool(real_node, NAMESPACE, tmp_path / "token")
    yield pool
    await pool.close()


async def defined(pool: Pool, name: str, script: str, first: dict[str, Any] | None = None, **container: Any) -> None:
    """A CronJob that runs a script in busybox. `first`: an init container."""
    main = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-ec", script]}
    pod = {"containers": [main | container], "terminationGracePeriodSeconds": 2, "automountServiceAccountToken": False}
    await pool.pods.apply_cron_job(name, pod | ({"initContainers": [first]} if first else {}))


async def test_every_end_of_a_container_reaches_its_run(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: defaultdict[tuple[int, str], str] = defaultdict(str)

    def log_output(run: Run, text: str, source: str) -> None:
        kept[run.id, source] += text

    monkeypatch.setattr(Run, "keeps_log", True)
    monkeypatch.setattr(Run, "log_output", log_output)
    limits = {"resources": {"limits": {"memory": "16Mi"}}}
    await defined(pool, "log", 'echo "attempt $WAKEBOARD_ATTEMPT of run $WAKEBOARD_RUN_ID"')
    await defined(pool, "message", "echo '{\"rows\": 3}' > /dev/termination-log")
    prepare = {"name": "prepare", "image": BUSYBOX, "command": ["echo", "prepared"]}
    await defined(pool, "fails", "echo no disk; exit 3", first=prepare)
    await defined(pool, "grows", "tail /dev/zero", **limits)
    await defined(pool, "absent", "true", image="localhost/absent:1")
    await defined(pool, "greedy", "true", resources={"requests": {"memory": "900Gi"}})
    names = ("log", "message", "fails", "grows", "absent", "greedy")
    runs = {name: pool.run({"cronJob": name}) for name in names}
    impatient = pool.process(jobs_start_seconds=10)
    attempts = [pool.start(run, impatient if name == "greedy" else None) for name, run in runs.items()]
    ends = dict(zip(names, await asyncio.gather(*attempts), strict=True))
    assert ends["log"].result == {"exit_code": 0, "output": f"attempt 1 of run {runs['log'].id}\n"}
    assert ends["message"].result == {"rows": 3}
    errors = {name: (type(end.error).__name__, str(end.error)) for name, end in ends.items() if end.error}
    assert errors["fails"][0] == "JobFailed"
    assert errors["fails"][1].startswith("exit code 3 (pod fails-wb-")
    assert errors["fails"][1].endswith("\nno disk")
    assert [kept[runs["fails"].id, name] for name in ("prepare", "main")] == ["prepared\n", "no disk\n"]
    assert errors["grows"][0] == "OOMKilled"
    assert errors["absent"][0] == "ImagePullBackOff"
    assert errors["greedy"][0] == "FailedScheduling", errors
    assert "Insufficient memory" in errors["greedy"][1]
    left = {job["metadata"]["annotations"]["wakeboard.dev/cron-job"] for job in await pool.pods.jobs()}
    assert left == {"log", "message", "fails", "grows"}  # of the others no pod may start later


async def test_the_end_of_any_log_is_shown(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"yes x | head -c {LONG_LINE} | tr '\\n' ' '; echo"
    await defined(pool, "bytes", "printf 'a\\0b\\377c'")
    await defined(pool, "long", f"{line}; echo the end; exit 4")
    await defined(pool, "endless", f"while true; do {line}; done")
    bytes_, long = await asyncio.gather(*(pool.start(pool.run({"cronJob": name})) for name in ("bytes", "long")))
    assert bytes_.result == {"exit_code": 0, "output": "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"}
    assert str(long.error).startswith("exit code 4 (pod long-wb-")
    assert str(long.error).endswith("x x \nthe end")
    monkeypatch.setattr(attempt_module, "stop_after_s", _soon)
    endless = await pool.start(pool.run({"cronJob": "endless"}))
    assert str(endless.error).startswith("it ran longer than its timeout")
    assert str(endless.error).rstrip().endswith("x x")


async def test_a_cancelled_run_ends_after_the_container_that_ignores_sigterm(pool: Pool) -> None:
    await defined(pool, "stubborn", IGNORES_SIGTERM)
    attempt = pool.start(run := pool.run({"cronJob": "stubborn"}))
    await pool.recorded(run, "Job 1 started")
    run.cancel()
    assert (await attempt).status == "cancelled"
    assert not [pod for pod in await pool.pods.pods() if pod["metadata"]["name"].startswith("stubborn-wb-")]


def _soon(*_: float) -> float:
    return ENDLESS_S
