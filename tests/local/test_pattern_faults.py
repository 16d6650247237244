"""Faults that hit a pattern of examples/patterns in the moment that is worst for it, with real workers and servers."""

from __future__ import annotations

import importlib.util
import json
import signal
import socket
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from aiosmtpd.controller import Controller

from testbed.processes import OUR_PACKAGES, ROOT, TIMEOUT_S, ModuleProcess, as_variables, wait_for
from tests.chaos.processes import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

PATTERNS = ROOT / "examples" / "patterns"
WAITING = "select count(*) = %s from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
ENDED = "select status::text from wakeboard.job_run_history where id = %s"
TOKENS = '{"token": "word"}\n' * 5
DAY = "(scheduled_for at time zone 'Europe/Lisbon')::date - 1"


class Shop:
    """A database with the tables of a pattern, and workers with its handlers."""

    def __init__(self, pattern: str, dsn: str, folder: Path, watcher: Watcher) -> None:
        self.dsn, self.watcher = dsn, watcher
        self._pattern, self._folder = PATTERNS / pattern, folder
        watcher.do((self._pattern / "schema.sql").read_text("utf-8"))

    def worker(self, *, lease_seconds: int = 2, **ports: int) -> ModuleProcess:
        """A worker whose handlers find their servers at these ports."""
        settings = {"dsn": self.dsn, "handlers": "handlers", "lease_seconds": lease_seconds, "poll_seconds": 0.05}
        environment = {name.upper(): str(port) for name, port in ports.items()}
        environment["PYTHONPATH"] = f"{OUR_PACKAGES}:{self._pattern}"
        return ModuleProcess(["wakeboard_worker", "--forever"], self._folder, as_variables(settings) | environment)

    def order(self, tenant: str) -> None:
        """Stores an article of one section."""
        self.watcher.do("insert into articles (tenant, prompts) values (%s, array['write'])", tenant)

    def campaign(self, customers: int) -> str:
        """Stores customers, and a mail of a campaign to the first one. Returns the campaign."""
        rows = "insert into customers select id, 'customer-' || id || '@example.com' from generate_series(1, %s) as id"
        self.watcher.do(rows, customers)
        insert = "insert into mails (campaign, customer, run) values ('spring', 1, 0) returning campaign"
        return self.watcher.ask(insert)

    def result(self, run_id: int) -> dict[str, Any]:
        """Waits for the run's end. Returns its row of the history."""
        self.watcher.wait(ENDED, run_id)
        return self.watcher.ask("select to_jsonb(run) from wakeboard.job_run_history as run where id = %s", run_id)


@pytest.fixture
def shop(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Shop]:
    with Watcher(database) as watcher:
        yield Shop(request.param, database, tmp_path, watcher)


def of(pattern: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shop", [pattern], indirect=True)


def module(file: Path) -> Any:
    """A module of a pattern."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@contextmanager
def server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Generator[int]:
    """A web server on loopback. `answer` writes the whole answer to a request, in a thread of its own."""

    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Requests) as found:
        thread = Thread(target=found.serve_forever)
        thread.start()
        yield found.server_port
        found.shutdown()
        thread.join()


def send(request: BaseHTTPRequestHandler, text: str, *, length: int | None = None) -> None:
    """Answers 200 with the text; `length` is what the header promises."""
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(text) if length is None else length))
    request.end_headers()
    request.wfile.write(text.encode())
    request.wfile.flush()


@contextmanager
def running(smtp: Smtp) -> Generator[int]:
    """The port of this mail server on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    controller = Controller(smtp, hostname="127.0.0.1", port=port)
    controller.start()
    yield port
    controller.stop()


@of("nightly-pipeline")
def test_two_runs_replace_a_day_one_after_the_other(shop: Shop) -> None:
    runs = shop.watcher.enqueue("extract", 2, payload='{"source": "orders"}')
    with psycopg.connect(shop.dsn) as blocker:
        blocker.execute(f"insert into raw select 'orders', {DAY}, 0, 1 from wakeboard.job_runs limit 1")
        rows = json.dumps([{"id": 0, "cents": 5}, {"id": 1, "cents": 6}])
        with server(lambda request: send(request, rows)) as port, shop.worker(source_port=port):
            shop.watcher.wait(WAITING, 2)  # both have found the day empty, or one waits for the other
            blocker.rollback()
            ended = [shop.result(run) for run in runs]
    assert [(run["status"], run["attempts"]) for run in ended] == [("succeeded", 1)] * 2
    assert shop.watcher.rows("select id, cents from raw order by id") == [(0, 5), (1, 6)]


@of("nightly-pipeline")
def test_an_extract_that_lost_its_lease_does_not_restore_old_rows(shop: Shop) -> None:
    (run,) = shop.watcher.enqueue("extract", payload='{"source": "orders"}')

    def source(request: BaseHTTPRequestHandler) -> None:
        with psycopg.connect(shop.dsn) as other:  # takes the run over and stores what the source says now
            other.execute("update wakeboard.job_runs set lease_epoch = lease_epoch + 1 where id = %s", (run,))
            other.execute(f"insert into raw select 'orders', {DAY}, 0, 5 from wakeboard.job_runs")
        send(request, '[{"id": 0, "cents": 1}, {"id": 1, "cents": 1}]')

    with server(source) as port, shop.worker(lease_seconds=60, source_port=port) as worker:
        wait_for(lambda: "lost" in worker.log, why=lambda: worker.log)
    assert shop.watcher.rows("select id, cents from raw") == [(0, 5)]


@of("ai-generation")
def test_tokens_of_a_cancelled_stream_are_taken_from_the_budget(shop: Shop) -> None:
    shop.order("ada")
    shop.watcher.do("select wakeboard.set_rate_limit('tenant-ada', 60, 3600, 1)")
    (run,) = shop.watcher.enqueue("write_article", payload='{"article": 1}', limit_key="tenant-ada")
    streaming, ended = Event(), Event()

    def model(request: BaseHTTPRequestHandler) -> None:
        send(request, TOKENS, length=len(TOKENS) + 1)  # it never says that it is done
        streaming.set()
        ended.wait(TIMEOUT_S)

    with server(model) as port, shop.worker(ai_port=port):
        assert streaming.wait(TIMEOUT_S)
        shop.watcher.do("select wakeboard.cancel(array[%s]::bigint[], reason => 'no')", run)
        assert shop.result(run)["status"] == "cancelled"
        ended.set()
    query = "select extract(epoch from next_unit_at - now()) / 60 from wakeboard.job_limits"
    assert 5 < shop.watcher.ask(query) <= 6, "one for the start and five for the tokens"
    assert not shop.watcher.rows("select * from sections")


@of("ai-generation")
def test_a_section_is_generated_once_in_spite_of_a_crash(shop: Shop) -> None:
    shop.order("ada")
    (run,) = shop.watcher.enqueue("write_article", payload='{"article": 1}')
    asked = list[str]()

    def model(request: BaseHTTPRequestHandler) -> None:
        if not asked:
            blocker.execute("lock table wakeboard.job_steps in share mode")
        asked.append(request.path)
        send(request, TOKENS + '{"done": true}\n')

    with psycopg.connect(shop.dsn) as blocker, server(model) as port:
        with shop.worker(ai_port=port) as first:
            shop.watcher.wait("select true from sections")
            first.send(signal.SIGKILL)
        shop.watcher.wait(WAITING, 0)  # or its session would still record the step
        blocker.rollback()
        with shop.worker(ai_port=port):
            assert shop.result(run)["result"] == {"sections": 1, "tokens": 5}
    assert len(asked) == 1
    assert shop.watcher.rows("select tokens from sections") == [(5,)]


class Smtp:
    """A mail server that gives one answer in one place, and counts the mails that it accepted."""

    def __init__(self, place: str, answer: str) -> None:
        self.place, self.answer, self.accepted = place, answer, 0

    async def handle_MAIL(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        envelope.mail_from = address
        return self.answer if self.place == "MAIL" else "250 OK"

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        envelope.rcpt_tos.append(address)
        return self.answer if self.place == "RCPT" else "250 OK"

    async def handle_DATA(self, server: Any, _session: Any, _envelope: Any) -> str:  # noqa: N802
        if self.place == "DATA":
            return self.answer
        self.accepted += 1
        if self.place == "after":
            server.transport.abort()
        return "250 OK"


@of("email-batch")
@pytest.mark.parametrize(
    ("place", "answer", "outcome"),
    [
        ("RCPT", "550 No such mailbox", "bounced"),
        ("DATA", "554 This looks like spam", "bounced"),
        (
            "MAIL",
            "550 This sender may not send",
            "(550, b'This sender may not send', 'shop@shop.example') (the sender is refused: 550)",
        ),
        ("DATA", "451 Try again later", "refused: 451 Try again later"),
        ("after", "", "in doubt: Connection unexpectedly closed"),
    ],
)
def test_only_a_lost_answer_is_in_doubt(shop: Shop, place: str, answer: str, outcome: str) -> None:
    campaign = shop.campaign(customers=1)
    payload = json.dumps({"campaign": campaign, "customer": 1, "subject": "Hello"})
    (run,) = shop.watcher.enqueue("send_mail", payload=payload)
    smtp = Smtp(place, answer)
    with (
        running(smtp) as port,
        server(lambda request: send(request, '{"accepted": true}')) as events,
        shop.worker(email_smtp_port=port, email_events_port=events),
    ):
        query = "select coalesce(last_error, result ->> 'status') from wakeboard.all_runs where id = %s"
        found = shop.watcher.wait(f"{query} and attempts = 1 and status in ('failed', 'succeeded')", run)
    assert found == outcome


@of("email-batch")
def test_a_campaign_ends_although_mails_were_cancelled(shop: Shop) -> None:
    shop.campaign(customers=3)
    shop.watcher.do("select wakeboard.set_rate_limit('smtp', 1, 3600, 1)")
    (run,) = shop.watcher.enqueue("send_campaign", payload='{"subject": "Hello"}')
    with running(Smtp("none", "")) as port, shop.worker(email_smtp_port=port, email_events_port=1):
        shop.watcher.wait("select count(*) = 1 from wakeboard.job_run_history where job_type = 'send_mail'")
        cancelled = "select wakeboard.cancel(array(select id from wakeboard.job_runs where job_type = 'send_mail'))"
        shop.watcher.do(cancelled)
        result = shop.result(run)["result"]
    assert result == {"all": 3, "sent": 1, "bounced": 0, "queued": 0, "cancelled": 2}


@of("social-post")
@pytest.mark.parametrize("withdrawn", [True, False], ids=["withdrawn first", "published first"])
def test_a_post_is_withdrawn_or_published_and_never_both(shop: Shop, withdrawn: bool) -> None:
    posts = module(PATTERNS / "social-post" / "posts.py")
    asked, answer = Event(), Event()

    def network(request: BaseHTTPRequestHandler) -> None:
        asked.set()
        assert answer.wait(TIMEOUT_S)
        send(request, '{"url": "/posts/1"}')

    with psycopg.connect(shop.dsn) as user, server(network) as port:
        post = posts.write(user, "Hello", datetime.now(UTC))
        user.commit()
        if withdrawn:
            assert posts.withdraw(user, post)  # not committed: the run that starts now has to wait
        with shop.worker(social_port=port):
            if withdrawn:
                shop.watcher.wait(WAITING, 1)
                user.commit()
            else:
                assert asked.wait(TIMEOUT_S)
                assert not posts.withdraw(user, post), "too late"
                user.commit()
                answer.set()
            result = shop.watcher.wait("select result from wakeboard.job_run_history")
    assert result["published"] is not withdrawn
    assert asked.is_set() is not withdrawn
    status = "withdrawn" if withdrawn else "published"
    assert shop.watcher.ask("select status from posts") == status
