"""A handler of `Run[SendReport]` gets an instance, and no payload of another form."""

from __future__ import annotations

from contextlib import closing
from datetime import date
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import wakeboard
from tests.worker.typed_handlers import Charge, SendReport, Sync, charge, send_report, sync
from wakeboard import Job
from wakeboard.errors import BrokenHandlers, InvalidPayload, InvalidValue
from wakeboard.testing import FakeRun, run_handler_blocking

if TYPE_CHECKING:
    from tests.worker.conftest import Store

DAY = date(2031, 1, 6)
REPORT = SendReport(customer=42, week=DAY, pageNumbers=[1, 2])
WRONG = {"customer": "x", "week": "2031-01-06", "pageNumbers": [1, "secret"]}
SENTENCE = (
    "the payload is no SendReport: payload.customer: Input should be a valid integer, unable to parse string as an"
    " integer; payload.pageNumbers[1]: Input should be a valid integer, unable to parse string as an integer"
)


def test_instances_arrive_and_another_payload_is_dead_at_once(store: Store) -> None:
    with closing(psycopg.connect(store.dsn)) as conn:
        ids = [
            wakeboard.enqueue(conn, "typed/model", REPORT).id,
            *[run.id for run in wakeboard.enqueue_many(conn, [Job("typed/dataclass", Charge(5, DAY))])],
            wakeboard.enqueue(conn, "typed/dict", Sync(customer=7)).id,
            wakeboard.enqueue(conn, "typed/model", WRONG).id,
        ]
        wakeboard.schedule(conn, "a/b", "typed/model", REPORT)
        wakeboard.schedule_many(conn, [wakeboard.Schedule("a/c", "typed/model", REPORT)])
        conn.commit()
    store.wake(handlers="tests.worker.typed_handlers")
    *done, dead = map(store.run, ids)
    assert [run["result"] for run in done] == [[42, 2031, [1, 2]], [5, 2031], 7]
    assert (dead["status"], dead["attempts"], dead["last_error"]) == ("dead", 1, SENTENCE)
    payloads = store.watcher.rows("select payload from wakeboard.job_definitions")
    assert [each[0] for each in payloads] == [REPORT.model_dump(mode="json", by_alias=True)] * 2


@pytest.mark.parametrize(
    ("handler", "payload", "result"),
    [(send_report, REPORT, [42, 2031, [1, 2]]), (charge, Charge(5, DAY), [5, 2031]), (sync, Sync(customer=7), 7)],
)
def test_a_test_validates_as_a_worker_does(handler: Any, payload: Any, result: object) -> None:
    run = FakeRun(payload)
    assert [run_handler_blocking(handler, run).result for _ in range(2)] == [result] * 2
    refused = run_handler_blocking(handler, [])
    assert (refused.status, refused.dead) == ("discarded", True)
    assert isinstance(refused.error, InvalidPayload)


def test_an_instance_with_a_wrong_value_is_refused_where_it_is_enqueued() -> None:
    wrong: Any = Charge("secret", DAY)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="payload is no valid Charge"):
        FakeRun(wrong)


def test_a_type_that_cannot_be_found_is_a_broken_handler() -> None:
    def unknown(run: Any) -> None:
        pass

    unknown.__annotations__["run"] = "wakeboard.Run[Missing]"
    with pytest.raises(BrokenHandlers, match=r"'Missing' is not defined\. Define and import its names"):
        run_handler_blocking(unknown)
