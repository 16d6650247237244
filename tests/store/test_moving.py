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
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import wakeboard
from chaos.ledger import Ledger
from testbed.processes import ROOT, ModuleProcess, wait_for
from tests.postgres_servers import DEBIAN, SETTINGS, installed_binaries
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate
from wakeboard.store.roles import Roles, create_roles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres_servers import PostgresServer

GUIDE: Final = (ROOT / "docs" / "moving.md").read_text("utf-8")
BLOCKS: Final = {
    (title, number): block
    for title, text in re.findall(r"^#+ ([^\n]+)\n(.*?)(?=^##+ |\Z)", GUIDE, re.DOTALL | re.MULTILINE)
    for number, block in enumerate(re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
}
# The blocks of the guide, by their section and place in it: before the pause, while the old server is fenced, and last.
DUMP, REPLICATION = WAYS = ("With a dump", "With logical replication")
CREATE, FOLLOW = ("Prepare", 0), ("Prepare", 1)
MAY_FENCE, LOAD, LOOK, DROP, KEEPS_UP = (("Rehearse", number) for number in range(5))
PAUSE, FENCE = ("Pause", 0), ("Fence the old server", 0)
FENCED: Final = {way: ((way, 0), ("Compare", 0)) for way in WAYS}
NOTICE, RESUME = ("Go on", 0), ("Go on", 2)
AGAIN: Final = (("Begin again", 0), ("Begin again", 1))
ELSEWHERE: Final = {
    ("Move to another server", 0),  # names
    ("Pause", 1),  # tests/cluster/test_chart_install.py
    ("Go on", 1),
}

OWNER: Final = "wb_owner"
ROLES: Final = Roles(*(f"wb_{part}" for part in ("operator", "worker", "client", "viewer", "scaler", "scheduler")))
USES: Final = {  # of the roles that no process has here
    ROLES.operator: "select wakeboard.pause('queue:nothing')",
    ROLES.viewer: "select from wakeboard.all_runs",
    ROLES.scaler: "select wakeboard.backlog('{default}')",
    ROLES.scheduler: "select wakeboard.schedule('shop/more', 'recorded-tick', cron => '@daily', suspended => true)",
}
PAUSE_S: Final = 30.0  # from the fence until runs may begin; the machine of the tests may be busy
BETWEEN_RUNS_S: Final = "0.02"
AHEAD: Final = 20  # runs of each application, before the next step


class Move:
    """A move from the database `app` of one server to that of another, with processes that use them."""

    def __init__(self, old: str, new: str, folder: Path, processes: ExitStack) -> None:
        self._folder, self._processes = folder, processes
        databases = {"OLD": "app", "OLD_SERVER": "postgres", "MOVED": "app_moved"}
        self.dsns = {name: make_conninfo(old, dbname=database) for name, database in databases.items()}
        self.dsns |= {"NEW": make_conninfo(new, dbname="app"), "NEW_SERVER": make_conninfo(new, dbname="postgres")}

    def do(self, *blocks: tuple[str, int]) -> str:
        """Runs blocks of the guide. Returns what they print."""
        return "".join(map(self._do, blocks))

    def _do(self, block: tuple[str, int]) -> str:
        programs = (installed_binaries(DEBIAN), Path(sys.executable).parent, os.environ["PATH"])
        environment = {**os.environ, **self.dsns, "PATH": os.pathsep.join(map(str, programs))}
        command = ["bash", "-euo", "pipefail", "-c", BLOCKS[block]]
        done = subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, name: str, dsn: str) -> None:
        """Starts a worker and an application on this database. They stay."""
        for words, role in (
            (("wakeboard_worker", "--forever"), ROLES.worker),
            (("chaos.recording_application", name, BETWEEN_RUNS_S), ROLES.client),
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

    def ask(self, dsn: str, query: str, user: str | None = None) -> Any:
        with psycopg.connect(make_conninfo(self.dsns[dsn], user=user), autocommit=True) as conn:
            row = conn.execute(query.encode()).fetchone()
            return row[0] if row else None


@pytest.fixture
def move(postgres: PostgresServer, postgres_folder: Path, tmp_path: Path) -> Iterator[Move]:
    """From a PostgreSQL 15 with an installation in use, whose parts have roles, to a newer server without these."""
    settings = {**SETTINGS, "wal_level": "logical"}
    old = EmbeddedPostgres(
        postgres_folder / "old", settings=settings, binaries=installed_binaries(DEBIAN), trusting=True
    )
    with old, ExitStack() as processes:
        move = Move(old.dsn, postgres.dsn, tmp_path, processes)
        execute(move.dsns["OLD_SERVER"], "create database app encoding 'UTF8' template template0", "create role shop")
        execute(
            move.dsns["OLD"], create_roles(ROLES, OWNER), "create table orders ()", "alter table orders owner to shop"
        )
        asyncio.run(migrate(make_conninfo(move.dsns["OLD"], user=OWNER), roles=ROLES))
        with psycopg.connect(move.dsns["OLD"], autocommit=True) as conn:
            wakeboard.schedule(conn, "shop/ticks", "recorded-tick", every=timedelta(seconds=1), catch_up="All")
        move.start("before", "OLD")
        yield move
    forget = [f"drop role if exists {role}" for role in (OWNER, "shop", *ROLES.named().values())]
    execute(postgres.dsn, "drop database if exists app with (force)", *forget)


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def test_an_installation_moves_with_a_dump_and_nothing_runs_twice(move: Move) -> None:
    superuser = move.dsns["OLD_SERVER"]
    execute(superuser, "create role admin login createdb in role pg_signal_backend", f"grant {OWNER}, shop to admin")
    for name in ("OLD", "OLD_SERVER", "MOVED"):  # a managed server's administrator is no superuser
        move.dsns[name] = make_conninfo(move.dsns[name], user="admin")
    with pytest.raises(
        AssertionError, match=r"the rights of the database's owner; this role lacks pg_signal_backend or"
    ):
        move.do(MAY_FENCE)
    execute(superuser, "alter database app owner to admin", "grant pg_read_all_stats to admin")
    move.do(MAY_FENCE, CREATE)
    with pytest.raises(AssertionError, match='role "shop" does not exist'):
        move.do(LOAD)
    execute(move.dsns["NEW_SERVER"], "create role shop")
    move.do(*AGAIN, CREATE, LOAD, LOOK, DROP, CREATE)
    moves(move, DUMP)


def test_an_installation_moves_by_replication_and_nothing_runs_twice(move: Move) -> None:
    move.do(MAY_FENCE, CREATE, FOLLOW, KEEPS_UP, PAUSE, FENCE, *FENCED[REPLICATION], *AGAIN, CREATE, FOLLOW)
    moves(move, REPLICATION)


def test_each_command_of_the_guide_is_run() -> None:
    run = {CREATE, FOLLOW, MAY_FENCE, LOAD, LOOK, DROP, KEEPS_UP, PAUSE, FENCE, NOTICE, RESUME, *AGAIN}
    assert run | {*chain(*FENCED.values())} | ELSEWHERE == BLOCKS.keys()


def moves(move: Move, way: str) -> None:
    """Moves an installation in use that is ready for it, and looks at what was executed."""
    move.do(PAUSE)
    began = time.monotonic()
    move.do(FENCE)
    with pytest.raises(psycopg.OperationalError, match="not currently accepting connections"):
        psycopg.connect(move.dsns["OLD"])
    executed = sum(len(move.ledger(name, "done")) for name in ("before", "ticks"))
    move.do(*FENCED[way])
    assert "no failover or restore waits" in move.do(NOTICE)
    assert "everything is resumed" in move.do(RESUME)
    assert time.monotonic() - began < PAUSE_S
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
    for role, statement in USES.items():
        move.ask("NEW", statement, role)
    assert not asyncio.run(migrate(make_conninfo(move.dsns["NEW"], user=OWNER))).functions_written
