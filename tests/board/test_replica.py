"""A board and commands that read from a hot standby: every read works there, and none is old without saying so."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import psycopg
import pytest

from testbed.owned_folders import owned_folder
from testbed.processes import wait_for
from testbed.standby import Standby
from tests.board.action_store import Store
from tests.board.asgi import Client
from tests.board.test_every_route import FORM, made_parts, path_of, routes
from wakeboard.board.api.reads import READ_ENDPOINTS
from wakeboard.cli import main
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate
from wakeboard.views import replica

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from wakeboard.board.api.endpoints import Endpoint

pytestmark = pytest.mark.anyio

COMMANDS: Final = (  # that only read; {…} as in the paths of the board
    *("runs", "run {run}", "logs {run}", "explain {run}", "explain shop/nightly", "schedules", "schedule shop/daily"),
    *("next shop/daily", "queues", "workers", "failures", "audit", "alerts", "limit", "pause", "backfill", "graph"),
    *("effects list", "compare {run} {other}"),
)


JANUARY: Final = {"first": "2026-01-01", "last": "2026-02-01"}


class Servers:
    """A primary, and its standby."""

    def __init__(self, server: EmbeddedPostgres, standby: str) -> None:
        self.server, self.primary, self.standby = server, server.dsn, standby
        primary = self.primary
        self.store = Store(primary)
        self.parts = made_parts(self.store)
        self.parts["other"] = str(self.store.run())
        self.catch_up()

    def catch_up(self) -> None:
        """Waits until the standby has what is committed now."""
        with psycopg.connect(self.primary) as primary, psycopg.connect(self.standby, autocommit=True) as standby:
            row = primary.execute("select pg_current_wal_flush_lsn()").fetchone()
            query = "select pg_last_wal_replay_lsn() >= %s"
            wait_for(lambda: standby.execute(query, row).fetchone() == (True,))

    @contextmanager
    def stopped_replay(self) -> Generator[None]:
        """The standby receives everything, and replays nothing after a run that is created now."""
        self.store.run()
        self.catch_up()
        with psycopg.connect(self.standby, autocommit=True) as conn:
            conn.execute("select pg_wal_replay_pause()")
            wait_for(lambda: conn.execute("select pg_get_wal_replay_pause_state()").fetchone() == ("paused",))
            try:
                yield
            finally:
                conn.execute("select pg_wal_replay_resume()")


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with (
        owned_folder(Path(tempfile.gettempdir())) as folder,
        EmbeddedPostgres(folder / "primary", settings={"fsync": "off"}, trusting=True) as primary,
    ):
        asyncio.run(migrate(primary.dsn))
        standby = Standby(primary, folder / "standby")
        with standby.streaming():
            made = Servers(primary, standby.dsn)
            yield made
            made.store.conn.close()


def _needed(endpoint: Endpoint) -> str:
    """The query that the endpoint needs: so far, all of these are dates."""
    return f"?{urlencode({each.name: JANUARY[each.name] for each in endpoint.parameters if each.required})}"


def test_every_read_of_the_board_works_on_a_standby(servers: Servers) -> None:
    async def statuses() -> Mapping[str, int]:
        client = Client(servers.standby, acting_dsn=servers.primary)
        pages = [path_of(route.path, servers.parts) for route in routes("GET") if route.path != "/events"]
        reads = [path_of(f"/api/v1{each.path}", servers.parts) + _needed(each) for each in READ_ENDPOINTS]
        answers = {path: (await client.get(path, **FORM)).status for path in pages}
        answers |= {path: (await client.get(path)).status for path in reads}
        await client.close()
        return answers

    answers = asyncio.run(statuses())
    assert len(answers) > 30
    assert {path: status for path, status in answers.items() if status >= 400} == {}


def test_every_command_that_reads_works_on_a_standby(
    servers: Servers, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = {
        command: capsys.readouterr().err
        for command in COMMANDS
        if main([*command.format(**servers.parts).split(), "--dsn", servers.standby])
    }
    assert failed == {}
    assert main(["check", "--json", "--dsn", servers.standby]) == 1
    assert "The server is a read-only replica." in capsys.readouterr().out


def test_a_board_shows_its_own_changes_at_once(servers: Servers) -> None:
    async def shown() -> tuple[str, str, str]:
        client = Client(servers.primary, read_dsn=servers.standby)
        first = await client.get("/limits")
        with servers.stopped_replay():
            servers.store.rows("select pause('queue:elsewhere', 'made elsewhere')")
            old = await client.get("/limits")
            assert (await client.get(f"/api/v1/runs/{servers.store.run()}")).status == 200
            acted = await client.follow("/pause", scope="queue:mine", reason="made here")
        await client.close()
        return first.words, old.words, acted.words

    first, old, acted = asyncio.run(shown())
    assert "read from a standby" in first
    assert "behind" in old
    assert "made elsewhere" not in old
    assert "made here" in acted
    assert "made elsewhere" in acted


def test_whether_commits_hang_is_a_question_to_the_primary(servers: Servers) -> None:
    async def overview() -> str:
        client = Client(servers.primary, read_dsn=servers.standby)
        shown = await client.get("/")
        await client.close()
        return shown.words

    with psycopg.connect(servers.standby, autocommit=True) as conn:
        show = "show synchronous_standby_names"
        conn.execute("alter system set synchronous_standby_names = 'its_own_standby'")  # as a copied configuration has
        conn.execute("select pg_reload_conf()")
        wait_for(lambda: conn.execute(show).fetchone() == ("its_own_standby",))
        shown = asyncio.run(overview())
        conn.execute("alter system reset synchronous_standby_names")
        conn.execute("select pg_reload_conf()")
    assert "read from a standby" in shown
    assert "Commits hang" not in shown


def test_a_standby_that_lags_is_not_read_and_named_once(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replica, "MAX_LAG", timedelta(seconds=0.3))
    monkeypatch.setattr(replica, "LOOK_S", 0.0)
    monkeypatch.setattr(replica, "LOOK_AGAIN_S", 0.0)
    caplog.set_level(logging.INFO)

    async def until(client: Client, words: str) -> str:
        async with asyncio.timeout(30):
            while words not in (page := (await client.get("/limits")).words):
                client.board.changes.publish()
                await asyncio.sleep(0.05)
        return page

    async def shown() -> None:
        client = Client(servers.primary, read_dsn=servers.standby)
        await until(client, "read from a standby")
        with servers.stopped_replay():
            servers.store.rows("select pause('queue:late', 'made while it lags')")
            assert "made while it lags" in await until(client, "read from the primary, because")
        await until(client, "read from a standby")
        await client.close()
        away = Client(servers.primary, read_dsn=servers.standby + "&port=1")
        assert "made while it lags" in await until(away, "cannot connect")
        await away.close()

    asyncio.run(shown())
    said = [record.message for record in caplog.records if "WAKEBOARD_READ_DSN" in record.message]
    assert [line.split(" standby (WAKEBOARD_READ_DSN) ")[1].split(":")[0].split(",")[0] for line in said] == [
        "fails",
        "succeeds again",
        "fails",
    ]


def test_a_command_that_does_not_act_reads_from_the_standby(
    servers: Servers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(*words: str) -> Any:
        assert main([*words, "--json"]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return json.loads(printed.out)

    monkeypatch.setenv("WAKEBOARD_DSN", servers.primary)
    monkeypatch.setenv("WAKEBOARD_READ_DSN", servers.standby)
    with servers.stopped_replay():
        made = listed("enqueue", "ping")["id"]
        assert made not in {run["id"] for run in listed("runs")}
        monkeypatch.setenv("WAKEBOARD_READ_DSN", servers.standby + "&port=1")
        assert main(["runs", "--json"]) == 0
        printed = capsys.readouterr()
        assert made in {run["id"] for run in json.loads(printed.out)}
        assert printed.err.startswith("wakeboard: note: WAKEBOARD_READ_DSN is not used: cannot connect to ")
        main(["check", "--json"])
        found = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
        assert found["reads"]["message"].startswith("WAKEBOARD_READ_DSN is not used: cannot connect")
    monkeypatch.setenv("WAKEBOARD_READ_DSN", servers.standby)
    main(["check", "--json"])
    found = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["reads"]["message"].startswith("From a standby, ")


@pytest.fixture(scope="module")
def promoted(servers: Servers) -> Iterator[str]:
    """A second standby, which was promoted, and on which maintenance has run. The primary goes on."""
    with owned_folder(Path(tempfile.gettempdir())) as folder:
        standby = Standby(servers.server, folder)
        with standby.streaming():
            standby.promote()
            with psycopg.connect(standby.dsn, autocommit=True) as conn:
                wait_for(lambda: conn.execute("select not pg_is_in_recovery()").fetchone() == (True,))
                conn.execute("select wakeboard.lease_base()")
            yield standby.dsn


NOT_OF_THE_PRIMARY: Final = {
    "a promoted standby": ("primary", "promoted", "it is no standby any more"),
    "a standby of the former primary": ("promoted", "standby", "a former primary"),
    "the primary itself": ("primary", "primary", "From the primary, which"),
}


@pytest.mark.parametrize("case", NOT_OF_THE_PRIMARY)
def test_only_a_standby_of_the_primary_is_read(
    servers: Servers, promoted: str, case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of = {"primary": servers.primary, "standby": servers.standby, "promoted": promoted}
    dsn, read_dsn, reason = NOT_OF_THE_PRIMARY[case]
    primary, read = of[dsn], of[read_dsn]
    with psycopg.connect(primary, autocommit=True) as conn:
        made = conn.execute("select uuid::text from wakeboard.enqueue('ping', '{}')").fetchone()
    assert made is not None

    async def footer() -> str:
        client = Client(primary, read_dsn=read)
        shown = await client.get("/")
        await client.close()
        return shown.words.split("read from ")[-1]

    assert asyncio.run(footer()).startswith("the primary, ")
    monkeypatch.setenv("WAKEBOARD_DSN", primary)
    monkeypatch.setenv("WAKEBOARD_READ_DSN", read)
    assert main(["runs", "--json"]) == 0
    assert made[0] in capsys.readouterr().out
    main(["check", "--json"])
    found = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
    assert reason in found["reads"]["message"]
