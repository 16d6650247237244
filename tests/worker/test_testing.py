"""`wakeboard.testing` keeps the promises that a worker keeps to a handler."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid5

import pytest

import wakeboard
from wakeboard.errors import BrokenHandlers, EffectInDoubt, EffectRepeated, InvalidValue, StepRepeated, WakeboardError
from wakeboard.testing import FakeRun, run_handler, run_handler_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worker.conftest import Store

pytestmark = pytest.mark.anyio


class AsyncConnection:
    """A connection whose `execute` is awaited."""

    async def execute(self, query: str) -> None:
        raise NotImplementedError


class Connection:
    """A connection whose `execute` is called."""

    broken = False

    def execute(self, query: str) -> None:
        raise NotImplementedError


@wakeboard.handler("testing/declared")
async def declared(run: wakeboard.Run) -> object:
    return [run.job_type, run.payload]


async def test_a_result_is_what_the_store_would_store() -> None:
    async def returns(run: wakeboard.Run) -> object:
        return {1: (2, 3)} if run.payload == ["json"] else {4}

    assert (await run_handler(returns, ["json"])).result == {"1": [2, 3]}
    assert (await run_handler(returns, ["text"])).result == "{4}"


async def test_a_handler_gets_the_fields_of_the_fake_run() -> None:
    async def facts(run: wakeboard.Run) -> list[object]:
        assert run.scheduled_for == run.run_at == datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
        return [run.payload, run.attempt, run.max_attempts, run.queue, run.schedule, run.cancelled, str(run.uuid)]

    run = FakeRun({"a": 1}, attempt=3, max_attempts=9, queue="slow", schedule="billing/report")
    assert (await run_handler(facts, run)).result == [{"a": 1}, 3, 9, "slow", "billing/report", False, str(run.uuid)]
    assert (await run_handler(facts, {"a": 1}, attempt=3)).result[1] == 3
    assert (await run_handler(facts)).result[0] == {}


async def test_a_declared_job_type_is_found_by_its_name() -> None:
    assert (await run_handler("testing/declared", [1])).result == ["testing/declared", [1]]
    with pytest.raises(BrokenHandlers, match="no function handles 'nothing': import the module"):
        await run_handler("nothing")


async def test_a_plain_handler_runs_in_a_thread_as_in_a_worker() -> None:
    def where(run: wakeboard.Run) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await run_handler(where)).result is False


def test_without_a_loop_both_kinds_run() -> None:
    def plain(run: wakeboard.Run) -> int:
        return run.attempt

    async def awaited(run: wakeboard.Run) -> int:
        await asyncio.sleep(0)
        return run.attempt

    run = FakeRun()
    assert [run_handler_blocking(handler, run).result for handler in (plain, awaited, plain)] == [1, 2, 3]


def test_invalid_arguments_are_refused() -> None:
    def nothing(run: wakeboard.Run) -> None:
        pass

    def yields(run: wakeboard.Run) -> Any:
        yield

    with pytest.raises(TypeError, match=r"pass attempt to FakeRun\(…\)"):
        run_handler_blocking(nothing, FakeRun(), attempt=2)
    with pytest.raises(InvalidValue, match=r"payload\.a is <object object at .*, which JSON cannot represent"):
        FakeRun({"a": object()})
    with pytest.raises(BrokenHandlers, match="is a generator"):
        run_handler_blocking(yields)


# -- outcomes ----------------------------------------------------------------------------------------------------------

RAISED = [
    (ValueError("no such customer"), "failed", False, None),
    (wakeboard.Discard("it makes no sense"), "discarded", True, None),
    (wakeboard.RetryAfter(60), "failed", False, 60.0),
    (wakeboard.Snooze(30), "snoozed", False, 30.0),
    (wakeboard.Snooze(0), "snoozed", False, 0.1),
    (SystemExit(3), "failed", False, None),
    (asyncio.CancelledError(), "failed", False, None),
    (wakeboard.LeaseLost("gone"), "lease lost", False, None),
]


@pytest.mark.parametrize(("error", "status", "dead", "delay_s"), RAISED)
@pytest.mark.parametrize("plain", [True, False])
async def test_what_a_handler_raises_decides_the_outcome(
    error: BaseException, status: str, dead: bool, delay_s: float | None, plain: bool
) -> None:
    def raises(run: wakeboard.Run) -> None:
        raise error

    async def raises_too(run: wakeboard.Run) -> None:
        raise error

    outcome = await run_handler(raises if plain else raises_too)
    assert (outcome.status, outcome.dead, outcome.delay_s, outcome.error) == (status, dead, delay_s, error)
    with pytest.raises(type(error)):
        assert outcome.result


@pytest.mark.parametrize("outcome", [wakeboard.Snooze, wakeboard.RetryAfter])
@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf"])
async def test_a_delay_that_is_no_finite_number_fails_the_attempt(outcome: Any, seconds: str) -> None:
    """A snooze uses up no attempt: with a delay of 0 it would run again and again."""

    async def asks(run: wakeboard.Run) -> None:
        raise outcome(float(seconds))

    found = await run_handler(asks)
    assert found.status == "failed"
    with pytest.raises(InvalidValue, match=f"^{outcome.__name__} is given {seconds} as its seconds; write a number"):
        assert found.result


@pytest.mark.parametrize("plain", [True, False])
async def test_pytests_own_exceptions_are_not_taken_for_failures(plain: bool) -> None:
    def skips(run: wakeboard.Run) -> None:
        pytest.skip("really")

    async def skips_too(run: wakeboard.Run) -> None:
        pytest.skip("really")

    with pytest.raises(pytest.skip.Exception):
        await run_handler(skips if plain else skips_too)


# -- being stopped -----------------------------------------------------------------------------------------------------


async def test_a_plain_handler_has_to_check_whether_it_is_cancelled() -> None:
    def checks(run: wakeboard.Run) -> list[int]:
        done: list[int] = []
        while not run.cancelled:
            done.append(len(done))
            if len(done) == 3:
                fake.cancel()
        return done

    fake = FakeRun()
    outcome = await run_handler(checks, fake)
    assert (outcome.status, outcome.result) == ("succeeded", [0, 1, 2])  # a success wins


async def test_cancelling_a_test_cancels_its_handler() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def waits(run: wakeboard.Run) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(run_handler(waits))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_an_attempt_that_lost_its_lease_records_nothing() -> None:
    async def continues(run: wakeboard.Run) -> str:
        fake.lose_lease()
        with pytest.raises(wakeboard.LeaseLost):
            await run.step("Again", dict)
        with pytest.raises(wakeboard.LeaseLost):
            await run.once(AsyncConnection(), "again")
        with pytest.raises(wakeboard.LeaseLost):
            async with run.effect("again"):
                raise AssertionError
        return "done"

    fake = FakeRun()
    outcome = await run_handler(continues, fake)
    assert (outcome.status, outcome.called, fake.steps, fake.effects) == ("lease lost", [], {}, {})
    with pytest.raises(wakeboard.LeaseLost):
        assert outcome.result


# -- steps, effects, progress, log -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [True, False])
async def test_two_steps_of_one_name_in_one_attempt_are_refused(plain: bool) -> None:
    def report(run: wakeboard.Run) -> object:
        return [run.step("Send", lambda: 1), run.step("Send", lambda: 2)]

    async def report_too(run: wakeboard.Run) -> object:
        return [await run.step("Send", lambda: 1), await run.step("Send", lambda: 2)]

    outcome = await run_handler(report if plain else report_too)
    assert isinstance(outcome.error, StepRepeated)
    assert "needs its own name" in str(outcome.error)


async def test_runs_share_the_effects_that_happen_once_for_ever() -> None:
    async def charges(run: wakeboard.Run) -> tuple[bool, bool, str]:
        async with run.effect("invoice:812", once="forever") as charge:
            return charge.done, charge.in_doubt, charge.provider_key

    runs = [FakeRun() for _ in range(2)]
    runs[1].forever_effects = shared = runs[0].forever_effects
    first, second = [(await run_handler(charges, run)).result for run in runs]
    assert (first[:2], second[:2], first[2]) == ([False, False], [True, False], second[2])
    shared["invoice:812"] = "begun"
    assert (await run_handler(charges, FakeRun(forever_effects=shared))).result[:2] == [False, True]
    shared["invoice:812"] = "held"
    assert (await run_handler(charges, FakeRun(forever_effects=shared))).status == "snoozed"


@pytest.mark.parametrize("state", ["begun", "held"])
async def test_once_for_ever_says_that_the_end_of_an_effect_is_unknown(state: Any) -> None:
    async def books(run: wakeboard.Run) -> bool:
        return await run.once(None, "invoice:812", once="forever")

    outcome = await run_handler(books, FakeRun(forever_effects={"invoice:812": state}))
    assert isinstance(outcome.error, EffectInDoubt)


async def test_one_key_per_run_and_once_for_ever_are_two_effects() -> None:
    async def sends(run: wakeboard.Run) -> list[bool]:
        async with run.effect("mail") as own, run.effect("mail", once="forever") as common:
            return [own.in_doubt, common.in_doubt]

    assert (await run_handler(sends, FakeRun(forever_effects={"mail": "begun"}))).result == [False, True]


@pytest.mark.parametrize("second", ["effect", "once"])
@pytest.mark.parametrize("first", ["effect", "once"])
async def test_an_effect_whose_key_is_used_twice_is_refused_in_each_attempt(first: str, second: str) -> None:
    """Otherwise the second effect would be skipped, and no error would say so."""

    async def sends(run: wakeboard.Run) -> None:
        for way in (first, second):
            if way == "once":
                await run.once(None, "mail")
            else:
                async with run.effect("mail"):
                    pass

    def sends_plainly(run: wakeboard.Run) -> None:
        for way in (first, second):
            if way == "once":
                run.once(None, "mail")
            else:
                with run.effect("mail"):
                    pass

    for handler in (sends, sends_plainly):
        run = FakeRun()
        for _ in range(2):
            outcome = await run_handler(handler, run)
            assert isinstance(outcome.error, EffectRepeated)
            assert "put the item into it" in str(outcome.error)


async def test_an_effect_that_raised_may_be_tried_again_in_the_same_attempt() -> None:
    async def pays(run: wakeboard.Run) -> list[bool]:
        found: list[bool] = []
        for number in range(3):
            with suppress(ConnectionError):
                async with run.effect("pay") as effect:
                    found += [effect.done, effect.in_doubt]
                    if number < 2:
                        raise ConnectionError
        return found

    outcome = await run_handler(pays)
    assert (outcome.result, outcome.happened) == ([False] * 6, ["pay"])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"effects": {"mail": "finished"}}, r"effects\['mail'\] is 'finished'; write 'begun' or 'done'\."),
        ({"effects": {"mail": True}}, "write 'begun' or 'done'"),
        ({"effects": {"": "done"}}, "effect key"),
        ({"steps": {"a\nb": 1}}, "step name"),
        ({"attempt": 0}, "attempt is 0; the first attempt is 1"),
        ({"run_at": datetime(2026, 1, 5)}, "run_at has no time zone"),
    ],
)
def test_a_fake_run_refuses_what_no_worker_records(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(WakeboardError, match=problem):
        FakeRun(**fields)


async def test_the_provider_key_is_the_same_in_each_attempt() -> None:
    async def key(run: wakeboard.Run) -> str:
        return run.effect("mail").provider_key

    run = FakeRun()
    assert (await run_handler(key, run)).result == str(uuid5(run.uuid, "mail"))


async def test_progress_and_log_messages_are_recorded(caplog: pytest.LogCaptureFixture) -> None:
    async def reports(run: wakeboard.Run) -> None:
        run.progress(0.25)
        run.progress(7)
        run.log.debug("%s of %s", 1, 2)
        run.log.warning("careful", extra={"a": 1})

    with caplog.at_level(logging.WARNING):
        outcome = await run_handler(reports)
    assert outcome.progress == [0.25, 1.0]
    assert outcome.log == ["1 of 2", "careful"]
    assert "careful" in caplog.messages


def test_a_worker_repeats_nothing_and_agrees_with_a_fake_run(store: Store) -> None:
    import tests.worker.shared_handlers as handlers

    job_types = ("shared/steps", "shared/steps-plainly", "shared/effects", "shared/effects-plainly")
    runs = {job_type: store.enqueue(job_type)[0] for job_type in job_types}
    store.wake(handlers=handlers.__name__, drain_lookahead_seconds=10)
    for job_type, run in runs.items():
        fake = FakeRun(uuid=UUID(store.run(run)["uuid"]))
        outcomes = [run_handler_blocking(job_type, fake) for _ in range(store.run(run)["attempts"])]
        assert json.dumps(outcomes[-1].result) == json.dumps(store.run(run)["result"])
        assert outcomes[-1].status == "succeeded"
    counted = "select name, count(*) from calls group by 1 order by 1"
    assert store.watcher.rows(counted) == [("book", 2), ("one", 2)]  # one each of an async and a plain handler


REFUSED: list[tuple[Callable[[wakeboard.Run], object], str]] = [
    (lambda run: run.step("", list), "step name is"),
    (lambda run: run.step("a\nb", list), "step name is"),
    (lambda run: run.step("a", "x".__mul__, 70_000), "a step result is at most 64 KiB"),
    (lambda run: run.once(None, "k" * 257), "effect key is"),
    (lambda run: run.effect("\0").__enter__(), "effect key is"),
    (lambda run: run.step("a\ud800", list), "a text cannot be stored as UTF-8: surrogates not allowed"),
    (lambda run: run.once(None, "a\ud800"), "a text cannot be stored as UTF-8: surrogates not allowed"),
    (lambda run: run.effect("a\ud800").__enter__(), "a text cannot be stored as UTF-8: surrogates not allowed"),
    (lambda run: run.once(None, cast("Any", 5)), "a key or a name is of type int"),
    (lambda run: run.once(None, cast("Any", ["a"]), once="forever"), "a key or a name is of type list"),
]


@pytest.mark.parametrize(("handler", "sentence"), REFUSED)
def test_a_fake_run_refuses_what_the_store_would_refuse(handler: Any, sentence: str) -> None:
    with pytest.raises(WakeboardError, match=sentence):
        _ = run_handler_blocking(handler).result


@pytest.mark.parametrize("payload", [{"a": "x" * 70_000}, [2**60], 5, {"a": "\0"}])
def test_a_fake_run_refuses_a_payload_that_a_run_cannot_have(payload: Any) -> None:
    with pytest.raises(InvalidValue, match="payload"):
        FakeRun(payload)
