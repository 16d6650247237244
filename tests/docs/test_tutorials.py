"""Each tutorial works as it is typed: its files are written, its commands run, and they print what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import yaml

from testbed.clients import node, typescript_worker
from testbed.processes import ROOT, inherited_environment, wait_for
from tests.chart.rendering import named, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)

TUTORIALS = ROOT / "docs" / "tutorials"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
INSTALLS = ("pip install", "npm install")
STAYS = {"wakeboard up shop": "Ctrl-C stops", "wakeboard up schedules": "Ctrl-C stops", "node worker.js": "ready"}


@dataclass
class Reader:
    """Does what a page says, in a folder. What a page leaves running is stopped at the end."""

    folder: Path
    stack: ExitStack
    exports: str = ""
    printed: list[str] = field(default_factory=list[str])

    def follows(self, page: str) -> None:
        """Takes the blocks of the page in their order."""
        for language, title, text in BLOCK.findall((TUTORIALS / page).read_text("utf-8")):
            if title:
                (self.folder / title).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / title).write_text(text, "utf-8")
            elif language == "sh":
                self.types(text)
            elif language == "sql":
                self.executes(text)
            else:
                self.sees(text)

    def types(self, script: str) -> None:
        if any(words in script for words in INSTALLS):
            return
        *lines, last = script.splitlines()
        before = self.exports
        self.exports += "".join(f"{line}\n" for line in script.splitlines() if line.startswith("export "))
        if last in STAYS:
            self.runs(["bash", "-euc", before + "\n".join(lines)])
            self.starts(last)
        else:
            self.printed.append(self.runs(["bash", "-euo", "pipefail", "-c", before + script]))

    def runs(self, words: list[str]) -> str:
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{words[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout

    def starts(self, command: str) -> None:
        log = self.folder / f"{command.replace(' ', '-')}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-euc", f"{self.exports}exec {command}"],
                cwd=self.folder, env=self.environment, stdout=output, stderr=output,
            )  # fmt: skip
        self.stack.callback(process.wait, 30)
        self.stack.callback(process.send_signal, signal.SIGINT)
        wait_for(lambda: STAYS[command] in log.read_text() or process.poll() is not None, why=log.read_text)
        assert process.poll() is None, log.read_text()

    def executes(self, statements: str) -> None:
        dsn = self.runs(["bash", "-euc", f'{self.exports}printf %s "$WAKEBOARD_DSN"'])
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(statements.encode())

    def sees(self, shown: str) -> None:
        """The last output is the text, in which `…` stands for anything."""
        pattern = ".*".join(map(re.escape, shown.strip("\n").split("…")))
        assert re.fullmatch(pattern, self.printed[-1].strip("\n"), re.DOTALL), self.printed[-1]

    @property
    def environment(self) -> dict[str, str]:
        programs = os.pathsep.join([str(Path(sys.executable).parent), str(node().parent), os.environ["PATH"]])
        return {**inherited_environment(), "PATH": programs, "COLUMNS": "120"}


@pytest.fixture
def reader(postgres_folder: Path) -> Iterator[Reader]:
    with ExitStack() as stack:
        yield Reader(postgres_folder, stack)


def test_a_python_application_enqueues_retries_and_schedules(reader: Reader) -> None:
    reader.follows("python-application.md")
    assert '"sent_for": 42' in reader.printed[1]


def test_a_cronjob_becomes_a_schedule_in_files(reader: Reader) -> None:
    reader.follows("cronjobs.md")


def test_a_platform_team_prepares_pools_alerts_and_plans(reader: Reader) -> None:
    reader.follows("platform-team.md")
    chart = rendered(yaml.safe_load((reader.folder / "values.yaml").read_text()))
    pool = named(chart, "Deployment", "wakeboard-worker-billing")
    assert pool["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/billing:7"


def test_a_worker_in_typescript_executes_what_sql_enqueues(reader: Reader) -> None:
    client = typescript_worker()
    (reader.folder / "package.json").write_text('{"type": "module"}')
    shutil.copytree(client / "dist", reader.folder / "node_modules/wakeboard/dist")
    shutil.copy(client / "package.json", reader.folder / "node_modules/wakeboard")
    (reader.folder / "node_modules/pg").symlink_to(client / "node_modules/pg")
    reader.follows("other-languages.md")
    assert "Order 42: paid." in reader.printed[0]
