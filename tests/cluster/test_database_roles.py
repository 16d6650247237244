"""The installation that docs/install.md describes: an owner who is no superuser, and a database role for each part.

The processes run here, since there is no node, with the variables and the commands of the chart's pods.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from testbed.cluster.job_schedules import job_schedule
from testbed.cluster.operators import Environment, Operator, wait_for
from tests.chart.rendering import environment, pod_specs, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("owner", "operator", "worker", "viewer")


class Installation:
    """A database with these roles, migrated by the chart's own container."""

    def __init__(self, superuser: str) -> None:
        self._superuser = superuser
        with psycopg.connect(superuser, autocommit=True) as conn:
            database = conn.info.dbname
            self._roles = {part: f"{database}_{part}" for part in PARTS}
            for role in self._roles.values():
                conn.execute(f'create role "{role}" login'.encode())
            conn.execute(f'grant create on database "{database}" to "{self._roles["owner"]}"'.encode())
        grants = {part: self._roles[part] for part in PARTS if part != "owner"}
        values: dict[str, Any] = {"existingSecret": "store", "roles": grants}
        self.pods = dict(pod_specs(rendered({"database": values})))
        migrating = self.pods["Deployment/wakeboard-operator"]["initContainers"][0]
        self.output = self.run("owner", migrating["command"], environment(migrating))

    def dsn(self, part: str) -> str:
        return make_conninfo(self._superuser, user=self._roles[part])

    def run(self, part: str, words: list[str], variables: dict[str, str]) -> str:
        """What a program says that logs in to the database as this part."""
        paths = os.pathsep.join(str(ROOT / folder) for folder in ("", "worker", "operator"))
        command = [sys.executable, "-m", *words] if words[0] != "wakeboard" else _command_line(words)
        given = {**os.environ, **variables, "WAKEBOARD_DSN": self.dsn(part), "PYTHONPATH": paths}
        answer = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=60)
        assert answer.returncode == 0, answer.stderr + answer.stdout
        return answer.stdout + answer.stderr

    def close(self) -> None:
        with psycopg.connect(self._superuser, autocommit=True) as conn:
            for role in self._roles.values():
                conn.execute(f'drop owned by "{role}" cascade'.encode())
                conn.execute(f'drop role "{role}"'.encode())


def _command_line(words: list[str]) -> list[str]:
    return [str(Path(sys.executable).with_name("wakeboard")), *words[1:]]


@pytest.fixture
def installation(empty_database: str) -> Iterator[Installation]:
    made = Installation(empty_database)
    yield made
    made.close()


def test_every_part_works_with_the_moves_of_its_own_role(
    installation: Installation, control_plane: Cluster, crds: None, namespace: str, tmp_path: Path
) -> None:
    assert "the schema is at migration" in installation.output
    env = Environment(control_plane, namespace, installation.dsn("owner"))
    env.create(job_schedule("good"))
    env.create(job_schedule("bad", jobType="http", payload={"url": "http://nowhere.invalid/"}, maxAttempts=1))
    settings = {"namespaces": namespace, "source": f"k8s:{namespace}", "status_min_interval_seconds": 1}
    waking = environment(installation.pods["CronJob/wakeboard-wake-default"]["containers"][0])
    waking |= {"WAKEBOARD_DRAIN_LOOKAHEAD_SECONDS": "0", "WAKEBOARD_HTTP_ALLOWED_HOSTS": "elsewhere.example.com"}
    with Operator(installation.dsn("operator"), control_plane.admin, tmp_path, **settings) as operator:

        def comes(name: str, what: str, value: object) -> None:
            wait_for(lambda: _found(env.status(name), what) == value, why=lambda: (env.status(name), operator.log))

        for name in ("good", "bad"):
            wait_for(lambda name=name: env.condition(name, "Ready")[0] == "True", why=lambda: operator.log)
            env.annotate(name, run_now="1")
            comes(name, "queued", 1)
        output = installation.run("worker", ["wakeboard_worker"], waking)
        comes("good", "lastRun.result", "succeeded")
        comes("bad", "dead", 1)
        assert "permission" not in output
        env.annotate("bad", discard_dead="1")
        comes("bad", "dead", 0)
        assert "denied" not in operator.log
        assert "may not" not in operator.log
        env.delete("good")
        wait_for(lambda: env.row("good", "name") is None, why=lambda: operator.log)
    for part in ("operator", "viewer"):
        assert '/good"' in installation.run(part, ["wakeboard", "runs", "--json"], {})
        assert '"level": "ok"' in installation.run(part, ["wakeboard", "check", "--json"], {})


def _found(status: dict[str, Any], words: str) -> object:
    found: Any = status
    for word in words.split("."):
        found = found.get(word, {})
    return found
