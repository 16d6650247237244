"""docs/moving.md does what it says, on two servers: nothing is lost, nothing runs twice, and ids go on."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import wakeboard
from chaos.ledger import Ledger
from testbed.processes import ROOT, ModuleProcess, wait_for
from tests.postgres_servers import DEBIAN, SETTINGS, installed_binaries
from wakeboard.health.queries.facts import read_installation
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.connection import connect
from wakeboard.store.migrate import migrate
from wakeboard.store.roles import Roles

if TYPE_CHECKING:
    from collections.abc import Iterator

GUIDE: Final = (ROOT / "docs" / "moving.md").read_text("utf-8")
BLOCKS: Final = {
    title: re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for title, text in re.findall(r"^#+ ([^\n]+)\n(.*?)(?=^#+ |\Z)", GUIDE, re.DOTALL | re.MULTILINE)
}
ROLES: Final = ("wb_operator", "wb_worker", "wb_client")
PAUSE_S: Final = 30.0  # from the fence until runs may begin; the machine of the tests may be busy
AHEAD: Final = 40  # runs of each application, before the next step


class Move:
    """A move from the database `app` of one server to that of another, with processes that use them."""

    def __init__(self, old: str, new: str, folder: Path, processes: ExitStack) -> None:
        self._folder, self._processes = folder, processes
        databases = {"OLD": "app", "OLD_SERVER": "postgres", "MOVED": "app_moved"}
        self.dsns = {name: make_conninfo(old, dbname=database) for name, database in databases.items()}
        self.dsns |= {"NEW": make_conninfo(new, dbname="app"), "NEW_SERVER": make_conninfo(new, dbname="postgres")}

    def do(self, title: str, number: int = 0) -> None:
        """Runs one block of the guide."""
        programs = (installed_binaries(DEBIAN), Path(sys.executable).parent, os.environ["PATH"])
        environment = {**os.environ, **self.dsns, "PATH": os.pathsep.join(map(str, programs))}
        command = ["bash", "-euo", "pipefail", "-c", BLOCKS[title][number]]
        done = subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"

    def start(self, name: str, dsn: str) -> None:
        """Starts a worker and an application on this database. They stay."""
        for words, role in (
            (("wakeboard_worker", "--forever"), "wb_worker"),
            (("chaos.recording_application", name), "wb_client"),
        ):
            variables = {
                "WAKEBOARD_DSN": make_conninfo(self.dsns[dsn], user=role),
                "WAKEBOARD_HANDLERS": "chaos.recording_handlers",
                "WAKEBOARD_POLL_SECONDS": "0.1",
                "CHAOS_LEDGER": str(self._folder),
            }
            self._processes.enter_context(ModuleProcess(words, self._folder, variables))
        wait_for(lambda: len(self.ledger(name, "done")) >= AHEAD)

    def ledger(self, name: str, kind: str) -> Ledger:
        return Ledger(f"{name}.{kind}", self._folder)

    def ask(self, dsn: str, query: str) -> Any:
        with psycopg.connect(self.dsns[dsn], autocommit=True) as conn:
            row = conn.execute(query.encode()).fetchone()
            return row[0] if row else None


@pytest.fixture
def servers(postgres_folder: Path) -> Iterator[tuple[str, str]]:
    """The superuser's DSNs of a PostgreSQL 15, with the roles of an installation, and of a newer server."""
    settings = {**SETTINGS, "wal_level": "logical"}
    binaries = installed_binaries(DEBIAN)
    old = EmbeddedPostgres(postgres_folder / "old", settings=settings, binaries=binaries, trusting=True)
    new = EmbeddedPostgres(postgres_folder / "new", settings=SETTINGS, trusting=True)
    with old, new:
        with psycopg.connect(old.dsn, autocommit=True) as conn:
            for role in ROLES:
                conn.execute(f"create role {role} login".encode())
        yield old.dsn, new.dsn


def test_an_installation_moves_to_a_newer_server_and_nothing_runs_twice(
    servers: tuple[str, str], tmp_path: Path
) -> None:
    for way in ("With a dump", "With logical replication"):
        folder = tmp_path / way
        folder.mkdir()
        with ExitStack() as processes:
            pause_s = moves(Move(*servers, folder, processes), way)
        assert pause_s < PAUSE_S
        for server in servers:
            with psycopg.connect(server, autocommit=True) as conn:
                conn.execute("drop database if exists app with (force)")
                conn.execute("drop database if exists app_moved with (force)")


def moves(move: Move, way: str) -> float:
    """Moves an installation in use. Returns how long it was fenced."""
    with psycopg.connect(move.dsns["OLD_SERVER"], autocommit=True) as conn:
        conn.execute("create database app encoding 'UTF8' template template0")
    asyncio.run(migrate(move.dsns["OLD"], roles=Roles(*ROLES)))
    with psycopg.connect(move.dsns["OLD"], autocommit=True) as conn:
        wakeboard.schedule(conn, "shop/ticks", "recorded-tick", every=timedelta(seconds=1), catch_up="All")
    move.start("before", "OLD")
    for number in range(1 + (way == "With logical replication")):
        move.do("Prepare", number)
    if way == "With a dump":  # a first try is given up
        for title in ("Pause", "Fence the old server", "Back"):
            move.do(title)
    move.do("Pause")
    began = time.monotonic()
    move.do("Fence the old server")
    with pytest.raises(psycopg.OperationalError, match="not currently accepting connections"):
        psycopg.connect(move.dsns["OLD"])
    executed = sum(len(move.ledger(name, "done")) for name in ("before", "ticks"))
    move.do(way)
    move.do("Go on")
    move.do("Go on", 1)
    pause_s = time.monotonic() - began
    move.start("after", "NEW")  # beside those with the old connection string
    for name in ("before", "after"):
        asked = {*move.ledger(name, "asked").numbers()}
        wait_for(lambda: asked <= {*move.ledger(name, "done").numbers()})  # noqa: B023 - called at once
    for name in ("before", "after", "ticks"):
        done = move.ledger(name, "done").numbers()
        assert len(done) == len(set(done))
    ticks = move.ledger("ticks", "done").numbers()
    assert sorted(ticks) == [*range(min(ticks), max(ticks) + 1)]
    assert move.ask("MOVED", "select count(*) from wakeboard.all_runs where status = 'succeeded'") == executed
    assert move.ask("NEW", "select count(*) = count(distinct id) from wakeboard.all_runs")
    assert asyncio.run(behind(move.dsns["NEW"])) == []
    return pause_s


async def behind(dsn: str) -> list[str]:
    """The tables whose sequences `wakeboard check` names."""
    async with await connect(dsn) as conn:
        return (await read_installation(conn)).installed.sequences_behind
