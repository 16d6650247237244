"""The built-in job type `http`, with a real server on loopback."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.errors import Discard, RetryAfter
from wakeboard.settings import read_settings
from wakeboard.testing import FakeRun, Outcome, run_handler
from wakeboard_worker.builtin.http import Http
from wakeboard_worker.builtin.http_outcome import HttpError
from wakeboard_worker.outcomes import result_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.worker.conftest import Store
    from tests.worker.http_receiver import Receiver

    Call = Callable[..., Awaitable[Outcome]]

pytestmark = pytest.mark.anyio
LOOPBACK = {"http_allowed_hosts": "127.0.0.1,localhost", "http_allowed_private_networks": "127.0.0.0/8,::1/128"}


@pytest.fixture
async def call() -> AsyncIterator[Call]:
    """Makes an `http` run under settings; those with the same settings share a worker's handler."""
    handlers: dict[str, Http] = {}

    async def call(payload: Any, run: FakeRun | None = None, **settings: Any) -> Outcome:
        handler = handlers.setdefault(str(settings), Http(read_settings(**(LOOPBACK | settings))))
        return await run_handler(handler, run or FakeRun(payload))

    yield call
    for handler in handlers.values():
        await handler.close()


async def test_a_success_keeps_the_answer_and_sends_the_runs_uuid(call: Call, receiver: Receiver) -> None:
    run = FakeRun({"url": receiver.url("/hook"), "body": {"a": 1}})
    assert (await call(None, run)).result == {"status": 200, "body": "thanks"}
    assert receiver.seen[0].method == "POST"
    assert receiver.seen[0].headers["Idempotency-Key"] == str(run.uuid)
    assert receiver.seen[0].headers["Content-Type"] == "application/json"
    assert receiver.bodies == ['{"a": 1}']


async def test_a_payload_decides_about_method_headers_and_text(call: Call, receiver: Receiver) -> None:
    headers = {"idempotency-key": "mine", "Content-Type": "text/csv", "X-Name": "José"}
    await call({"method": "put", "url": receiver.url("/hook"), "headers": headers, "body": "a,b"})
    await call({"url": receiver.url("/hook")})
    first, second = receiver.seen
    assert (first.method, second.method) == ("PUT", "GET")
    assert first.headers.getall("Idempotency-Key") == ["mine"]
    assert first.headers.getall("Content-Type") == ["text/csv"]
    assert first.headers["X-Name"] == "José"
    assert "Content-Type" not in second.headers
    assert receiver.bodies == ["a,b", ""]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_run_is_retried_after_a_temporary_status(call: Call, receiver: Receiver, status: int) -> None:
    outcome = await call({"url": receiver.url(f"/{status}")})
    assert outcome.status == "failed"
    assert isinstance(outcome.error, HttpError)
    assert str(outcome.error) == f"the server answered {status}: because"


@pytest.mark.parametrize("status", [300, 400, 401, 404, 410, 422])
async def test_a_run_is_dead_after_a_permanent_status(call: Call, receiver: Receiver, status: int) -> None:
    outcome = await call({"url": receiver.url(f"/{status}")})
    assert outcome.status == "discarded"
    assert str(outcome.error) == f"the server answered {status}: because"


async def test_retry_after_sets_the_delay(call: Call, receiver: Receiver) -> None:
    outcome = await call({"url": receiver.url("/busy?for=7")})
    assert isinstance(outcome.error, RetryAfter)
    assert outcome.delay_s == 7


async def test_a_run_is_retried_if_the_server_is_missing(call: Call, receiver: Receiver) -> None:
    for url in (receiver.url("/broken"), "http://127.0.0.1:1/"):
        outcome = await call({"method": "POST", "url": url})
        assert outcome.status == "failed"
        assert str(outcome.error).startswith("no answer: ")
    assert str(outcome.error) == "no answer: 127.0.0.1:1 cannot be reached: Connection refused"


async def test_a_cancelled_run_does_not_wait_for_the_response(call: Call, receiver: Receiver) -> None:
    run = FakeRun({"url": receiver.url("/silent")})
    task = asyncio.ensure_future(call(None, run))
    await receiver.asked.wait()
    run.cancel()
    assert (await task).status == "cancelled"


# -- what is kept of an answer -----------------------------------------------------------------------------------------


async def test_a_response_is_not_read_beyond_its_limit(call: Call, receiver: Receiver) -> None:
    outcome = await call({"url": receiver.url("/endless")}, http_max_body_bytes=1000)
    assert outcome.result["body"] == ("and so on, " * 100)[:1000]


async def test_a_compressed_response_is_not_decompressed(call: Call, receiver: Receiver) -> None:
    assert len((await call({"url": receiver.url("/bomb")})).result["body"]) <= 8_000


async def test_a_result_with_any_body_is_stored_as_an_object(call: Call, receiver: Receiver) -> None:
    outcome = await call({"url": receiver.url("/hostile")})
    stored = json.loads(result_json(outcome.result))
    assert stored["status"] == 200
    assert len(stored["body"]) == 8_000


@pytest.mark.parametrize(
    ("charset", "read"),
    [("latin-1", "café"), ("windows-1252", "café")]
    + [(name, "caf\ufffd") for name in ("no-such", "rot13", "punycode", "idna", "unicode_escape", "utf-7")],
)
async def test_a_body_is_stored_as_text_whatever_charset_the_server_declares(
    call: Call, receiver: Receiver, charset: str, read: str
) -> None:
    assert (await call({"url": receiver.url(f"/charset/{charset}")})).result["body"] == read


# -- payloads that cannot work -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({}, "url must be a text"),
        (["http://127.0.0.1/"], "url must be a text"),
        ({"url": "https://example.com", "verb": "GET"}, "no field 'verb'"),
        ({"url": "ftp://127.0.0.1/"}, "begins with https://"),
        ({"url": "127.0.0.1/"}, "begins with https://"),
        ({"url": "http://127.0.0.1:99999/"}, "begins with https://"),
        ({"url": "http://127.0.0.1:0/"}, "begins with https://"),
        ({"url": "http://[::1/"}, "begins with https://"),
        ({"url": "http://127.0.0.1/a b"}, "begins with https://"),
        ({"url": "http://127.0.0.1\\@example.com/"}, "begins with https://"),
        ({"url": 1}, "begins with https://"),
        ({"url": "http://me:pw@127.0.0.1/"}, "must not contain a user name or password"),
        ({"url": "http://me@127.0.0.1/"}, "must not contain a user name or password"),
        ({"url": "http://example.com/"}, "example.com:80 is not allowed on this worker"),
        ({"url": "http://127.0.0.1/", "headers": {"A": "b\nc"}}, "'A' must be one line of text"),
        ({"url": "http://127.0.0.1/", "headers": {"A": 1}}, "'A' must be one line of text"),
        ({"url": "http://127.0.0.1/", "headers": {"A:B": "c"}}, "is not a valid header name"),
        ({"url": "http://127.0.0.1/", "headers": {"host": "intern"}}, "a payload must not set the header"),
        ({"url": "http://127.0.0.1/", "headers": {"Transfer-Encoding": "x"}}, "a payload must not set the header"),
        ({"url": "http://127.0.0.1/", "headers": ["A"]}, "headers must be an object"),
        ({"url": "http://127.0.0.1/", "method": "BREW"}, "method is one of GET"),
        ({"url": "http://127.0.0.1/", "method": 1}, "method is one of GET"),
    ],
)
async def test_an_invalid_payload_makes_the_run_dead_with_one_sentence(call: Call, payload: Any, message: str) -> None:
    outcome = await call(payload)
    assert outcome.status == "discarded"
    assert message in str(outcome.error)


# -- where it may go ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_private_address_is_refused_when_the_connection_is_made(
    call: Call, receiver: Receiver, host: str
) -> None:
    outcome = await call({"url": receiver.url("/hook", host)}, http_allowed_private_networks="10.0.0.0/8")
    assert outcome.status == "discarded"
    assert (
        "is not a public address: if it is intended, add its network to WAKEBOARD_HTTP_ALLOWED_PRIVATE_NETWORKS"
        in str(outcome.error)
    )
    assert receiver.seen == []


async def test_a_port_that_is_not_allowed_is_refused(call: Call, receiver: Receiver) -> None:
    assert (await call({"url": receiver.url("/hook")}, http_allowed_hosts="127.0.0.1:1")).status == "discarded"
    assert (await call({"url": receiver.url("/hook")}, http_allowed_hosts=f"127.0.0.1:{receiver.port}")).result


async def test_proxies_of_the_environment_are_ignored(
    call: Call, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert (await call({"url": receiver.url("/hook")})).result


async def test_runs_share_connections_but_no_cookies(call: Call, receiver: Receiver) -> None:
    await call({"url": receiver.url("/cookie")})
    await call({"url": receiver.url("/hook")})
    assert len(set(receiver.connections)) == 1
    assert "Cookie" not in receiver.seen[1].headers


async def test_closing_ends_the_connections(receiver: Receiver) -> None:
    handler = Http(read_settings(**LOOPBACK))
    await handler.close()  # before any run: nothing to do
    for _ in range(2):
        assert (await run_handler(handler, {"url": receiver.url("/hook")})).result
        await handler.close()
    assert len(set(receiver.connections)) == 2


# -- redirects ---------------------------------------------------------------------------------------------------------


async def test_a_redirect_is_followed_to_allowed_hosts_only(call: Call, receiver: Receiver) -> None:
    assert (await call({"url": receiver.url("/moved/307?to=/hook")})).result["body"] == "thanks"
    outcome = await call({"url": receiver.url("/moved/307?to=http://example.com/")})
    assert (outcome.status, str(outcome.error)[:14]) == ("discarded", "example.com:80")


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/", "http://me:pw@127.0.0.1/", "http://[", "mailto:me"])
async def test_a_redirect_to_an_invalid_url_makes_the_run_dead(call: Call, receiver: Receiver, to: str) -> None:
    outcome = await call({"url": receiver.url(f"/moved/302?to={to}")})
    assert str(outcome.error) == "the server redirected to a URL that is not http or https"
    assert isinstance(outcome.error, Discard)


async def test_a_redirect_to_a_private_address_is_refused(call: Call, receiver: Receiver) -> None:
    url = receiver.url(f"/moved/307?to=http://localhost:{receiver.port}/hook")
    outcome = await call(
        {"url": url}, http_allowed_private_networks="127.0.0.1/32", http_allowed_hosts="127.0.0.1,[::1]"
    )
    assert outcome.status == "discarded"
    url = receiver.url("/moved/307?to=http://[::1]:9/")
    outcome = await call(
        {"url": url}, http_allowed_private_networks="127.0.0.1/32", http_allowed_hosts="127.0.0.1,[::1]"
    )
    assert (outcome.status, str(outcome.error)[:28]) == ("discarded", "::1 is not a public address:")


async def test_the_number_of_redirects_is_limited(call: Call, receiver: Receiver) -> None:
    outcome = await call({"url": receiver.url("/round")})
    assert (outcome.status, str(outcome.error)) == ("discarded", "the server redirected more than 5 times")
    assert len(receiver.seen) == 6


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (302, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ],
)
async def test_a_redirect_keeps_or_changes_the_method_as_browsers_do(
    call: Call, receiver: Receiver, status: int, method: str, then: str
) -> None:
    await call({"method": method, "url": receiver.url(f"/moved/{status}?to=/hook"), "body": "hello"})
    assert receiver.seen[1].method == then
    assert receiver.bodies[1] == ("hello" if then != "GET" else "")
    assert ("Content-Type" in receiver.seen[1].headers) == (then != "GET")


async def test_a_redirect_to_another_host_carries_no_credentials(call: Call, receiver: Receiver) -> None:
    url = receiver.url(f"/moved/307?to={receiver.url('/hook', 'localhost')}")
    await call({"url": url, "headers": {"Authorization": "Bearer x", "X-Key": "y", "Accept": "text/plain"}})
    first, second = receiver.seen
    assert {"Authorization", "X-Key", "Accept", "Idempotency-Key"} <= set(first.headers)
    assert {"Accept", "Idempotency-Key"} <= set(second.headers)
    assert not {"Authorization", "X-Key"} & set(second.headers)


# -- the whole way -----------------------------------------------------------------------------------------------------


async def test_a_worker_sends_what_was_enqueued(store: Store, receiver: Receiver) -> None:
    payload = json.dumps({"url": receiver.url("/echo"), "body": "hello"})
    (run,) = store.enqueue("http", payload)
    await asyncio.to_thread(store.wake, **LOOPBACK)
    assert store.run(run)["result"] == {"status": 200, "body": "hello"}
    assert receiver.seen[0].headers["Idempotency-Key"] == store.run(run)["uuid"]


async def test_a_worker_without_allowed_hosts_does_not_claim_http_runs(store: Store) -> None:
    (run,) = store.enqueue("http", '{"url": "http://127.0.0.1:1/"}')
    await asyncio.to_thread(store.wake)
    assert store.run(run)["status"] == "queued"
