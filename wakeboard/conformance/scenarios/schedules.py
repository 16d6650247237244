"""Schedules that an application creates, by the client that the worker comes with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wakeboard.conformance.harness import expect
from wakeboard.conformance.scenario import Scenario, registration
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from wakeboard.conformance.harness import Harness

CRON: Final = "0 8 * * MON"
WRONG: Final = "0 25 * * *"
SENTENCE_ABOUT: Final = b"""
create function pg_temp.sentence_about(cron text) returns text language plpgsql as $$
begin
  perform wakeboard.schedule('conformance/report', 'conformance.echo', cron => sentence_about.cron);
  return 'the server took it';
exception when invalid_parameter_value then
  return sqlerrm;
end $$
"""

SCHEDULES: Final[list[Scenario]] = []
scenario = registration(SCHEDULES)


@scenario(
    "a schedule exists only if its transaction commits; the same call changes nothing, and another one edits it",
    "a customer whose sign-up failed gets reports, or each start of an application loses the ticks that are due",
)
def schedule(harness: Harness) -> None:
    harness.start()
    named: dict[str, object] = {"name": "conformance/report"}
    expect_answer(harness, {**named, "cron": CRON, "rollback": True}, {"answer": "created"})
    expect(not stored(harness), "the schedule exists, though its transaction was rolled back")
    expect_answer(harness, {**named, "cron": CRON}, {"answer": "created"})
    first = stored(harness)
    expect_answer(harness, {**named, "cron": CRON}, {"answer": "unchanged"})
    expect(first == stored(harness) == [("report", CRON, 1)], f"the schedule was {first}, and is {stored(harness)}")
    expect_answer(harness, {**named, "cron": "0 9 * * MON"}, {"answer": "updated"})
    expect(stored(harness) == [("report", "0 9 * * MON", 2)], f"after an edit, the schedule is {stored(harness)}")


@scenario(
    "a wrong cron expression is refused in the call, with the sentence of the server",
    "a user finds out weeks later, when no report came; or reads a driver's stack in place of what to write",
)
def refused_schedule(harness: Harness) -> None:
    harness.do(SENTENCE_ABOUT)
    ((sentence,),) = harness.rows(b"select pg_temp.sentence_about(%s)", WRONG)
    harness.start()
    expect_answer(harness, {"name": "conformance/report", "cron": WRONG}, {"refused": sentence})
    expect(not stored(harness), "the schedule exists, though its expression was refused")


@scenario(
    "a tick of a schedule becomes one run, which the worker executes",
    "an application whose schedules no worker runs, or two do",
)
def tick(harness: Harness) -> None:
    harness.start()
    expect_answer(harness, {"name": "conformance/trial", "at": "2026-01-05T08:00:00Z"}, {"answer": "created"})
    runs = (
        b"select run.id from wakeboard.all_runs as run join wakeboard.job_definitions as def on def.id = definition_id"
        b" where def.namespace = 'conformance' and def.name = 'trial'"
    )
    for _ in range(2):
        harness.enqueue_due_ticks()
    found = [run for (run,) in harness.rows(runs)]
    expect(len(found) == 1, f"the tick became {counted(len(found), 'run')}")
    harness.succeeded(*found)
    result = harness.run(found[0])["result"]
    expect(result == {"name": "conformance/trial"}, f"the run of the tick returned {result!r}, not its payload")


def expect_answer(harness: Harness, payload: dict[str, object], wanted: dict[str, str]) -> None:
    """Let the worker's handler create a schedule, and compare what it returns."""
    run = harness.one("schedule", payload)
    harness.succeeded(run)
    answer = harness.run(run)["result"]
    expect(answer == wanted, f"the handler was given {payload!r}, and returned {answer!r} in place of {wanted!r}")


def stored(harness: Harness) -> list[tuple[Any, ...]]:
    """The schedules of applications: the name, the expression and the generation of each."""
    query = b"select name, schedule, generation::integer from wakeboard.job_definitions where source = 'app'"
    return harness.rows(query)
