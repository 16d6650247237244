"""Runs every command of docs/install.md, unchanged, on a real node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.cluster.install_guide import Reader
from testbed.cluster.release import Release, external_database, load_images, remove_external_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.node import Node

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "install.md"
# Placeholders of the guide, and the values that replace them on this machine.
PLACEHOLDERS = {
    "registry.example.com/jobs": "localhost/wakeboard-example",
    "worker.image.tag=1": "worker.image.tag=dev",
    "'…'": "'secret'",
    ":…@": ":secret@",
    "db.example.com": "db.default",
    "?sslmode=require": "",  # the test's server speaks no TLS
}
IMAGES = """
image: {pullPolicy: Never}
operator: {image: {repository: localhost/wakeboard-operator, tag: dev}}
worker: {image: {repository: localhost/wakeboard-worker, tag: dev}}
devDatabase: {image: {repository: localhost/wakeboard-postgres, tag: dev}}
"""


class Administrator(Reader):
    """Has the images of this machine, and looks at schedules."""

    def __init__(self, node: Node, folder: Path) -> None:
        super().__init__(node, folder, GUIDE.read_text(), ROOT, IMAGES, PLACEHOLDERS)
        self.schedules = Release(node, "wakeboard", "wakeboard")

    def run_sql(self, heading: str) -> None:
        """The `sql` blocks below a heading, as a superuser."""
        for block in self.blocks(heading, "sql"):
            self.node.kubectl("exec", "-i", "db", "--", "psql", "-v", "ON_ERROR_STOP=1", "shop", stdin=block)


@pytest.fixture(scope="module")
def reader(real_node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Administrator]:
    load_images(real_node)
    real_node.make_volume("guide-data", "1Gi")
    yield Administrator(real_node, tmp_path_factory.mktemp("reader"))
    real_node.kubectl("delete", "namespace", "wakeboard", "--ignore-not-found")
    remove_external_database(real_node)


def test_an_evaluation_runs_the_first_schedule(reader: Administrator) -> None:
    assert "the run succeeded" in reader.types("Evaluate it")
    output = reader.types("Your first schedule")
    assert "hello" in output
    schedules = reader.schedules
    schedules.comes("hello", lambda status: status.get("lastAction", {}).get("token") == "first")
    schedules.comes("hello", lambda status: "lastRun" in status)


def test_a_release_is_upgraded_to_the_users_image_and_uninstalled(reader: Administrator) -> None:
    reader.types("Your handlers")
    schedules = reader.schedules
    schedules.declare("greet", jobType="greet", payload={"name": "Ada"})
    schedules.ask_for("greet", "run-now", "1")
    schedules.wake()
    schedules.comes("greet", lambda status: status.get("lastRun", {}).get("result") == "succeeded")
    reader.types("Remove it")
    assert "jobschedules" not in reader.node.kubectl("get", "crd", "-o", "name")


def test_a_database_with_a_role_for_each_part(reader: Administrator) -> None:
    external_database(reader.node)
    reader.run_sql("Your own Postgres")
    reader.types("Your own Postgres")
    schedules = reader.schedules
    schedules.declare("hello", jobType="ping")
    schedules.ask_for("hello", "run-now", "1")
    schedules.wake()
    schedules.comes("hello", lambda status: status.get("lastRun", {}).get("result") == "succeeded")
    reader.types("Remove it")
