"""Steps and effects: what must not happen a second time, in an attempt, a run, or ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid5

from wakeboard.conformance.harness import expect
from wakeboard.conformance.scenario import Scenario, registration
from wakeboard.text.humanize import counted, times

if TYPE_CHECKING:
    from wakeboard.conformance.harness import Harness

EFFECTS: Final[list[Scenario]] = []
scenario = registration(EFFECTS)


@scenario(
    "a step that was completed is not executed again; its stored result is returned",
    "a retry repeats the expensive first half of the work, and gets another result than before",
)
def steps(harness: Harness) -> None:
    run = harness.one("steps")
    harness.start()
    harness.succeeded(run)
    notes = [note.what for note in harness.notes(run)]
    expect(notes.count("draw") == 1, f"the step was executed {times(notes.count('draw'))}")
    expect(notes[1] == notes[-1], f"the step returned '{notes[1]}' and then '{notes[-1]}'")
    failed = harness.rows(
        b"select error from wakeboard.job_steps where run_id = %s and name = 'fail' and failed_at is not null", run
    )
    text = str(failed[0][0] if failed else None)
    expect("no such customer" in text, f"the error of the step that failed is recorded as '{text}'")


@scenario(
    "an effect is new once, then in doubt, then done, with one key for the provider",
    "a mail is sent twice, or not at all, when a worker dies beside it",
)
def effects(harness: Harness) -> None:
    run = harness.one("effect")
    harness.start()
    harness.succeeded(run)
    key = uuid5(UUID(harness.run(run)["uuid"]), "mail")
    notes = [note.what for note in harness.notes(run)]
    wanted = [f"{state} {key}" for state in ("new", "in doubt", "done")]
    expect(notes == wanted, f"the handlers noted {notes!r}; expected {wanted!r}")


@scenario(
    "an effect in the handler's own transaction happens once",
    "a payment is booked twice when the attempt fails after its commit",
)
def once(harness: Harness) -> None:
    run = harness.one("once")
    harness.start()
    harness.succeeded(run)
    paid = len(harness.notes(run))
    expect(paid == 1, f"the effect happened {times(paid)}")
    expect(harness.run(run)["result"] == {"mine": False}, "the second attempt got the answer that it has to pay")


@scenario(
    "an effect once for ever happens once for its key: other runs wait for it, and see that it is done",
    "a customer pays one invoice twice: by two runs, by a replay, or after a worker that died beside the payment",
)
def effects_forever(harness: Harness) -> None:
    invoice = {"key": "invoice:812"}
    harness.start()
    first = harness.one("effect", {**invoice, "holds": 60})
    key = uuid5(UUID(harness.run(first)["uuid"]), invoice["key"])
    harness.noted(first, f"new {key}")
    second = harness.one("effect", invoice)
    snoozed = b"select true from wakeboard.job_attempts where run_id = %s and outcome = 'snoozed'"
    harness.wait("the run did not snooze while another one executed the effect", snoozed, second)
    wait_s, attempts = harness.rows(
        b"select extract(epoch from run_at - now())::float8, attempts from wakeboard.job_runs where id = %s", second
    )[0]
    expect(0 < wait_s <= 5, f"the run snoozes for {wait_s:.1f} s in place of 5 s")  # less, on a busy machine
    expect(attempts == 0, f"the snooze cost {counted(attempts, 'attempt')}")
    expect(not harness.notes(second), "the effect was executed twice at once")
    harness.do(b"select * from wakeboard.cancel(array[%s::bigint])", first)
    harness.ended(first, "cancelled")
    harness.do(b"update wakeboard.job_runs set run_at = now() where id = %s and locked_by = 0", second)
    harness.succeeded(second)
    ((again,),) = harness.rows(b"select new_id from wakeboard.replay(array[%s::bigint])", second)
    harness.succeeded(again)
    for run, states in ((second, ("in doubt", "in doubt", "done")), (again, ("done",))):
        noted, wanted = [note.what for note in harness.notes(run)], [f"{state} {key}" for state in states]
        expect(noted == wanted, f"the handlers noted {noted!r}; expected {wanted!r}")
        expect(harness.run(run)["result"] == {"done": True}, "the run does not know that the effect is done")


@scenario(
    "an effect once for ever in the handler's own transaction happens once, whatever runs have it",
    "a payment is booked twice, because two runs or a replay had it",
)
def once_forever(harness: Harness) -> None:
    runs = harness.enqueue("once", {"key": "invoice:812"}, count=2)
    harness.start()
    harness.succeeded(*runs)
    ((again,),) = harness.rows(b"select new_id from wakeboard.replay(array[%s::bigint])", runs[0])
    harness.succeeded(again)
    paid = sum(len(harness.notes(run)) for run in (*runs, again))
    expect(paid == 1, f"the effect happened {times(paid)}")
    answers = [harness.run(run)["result"] for run in (*runs, again)]
    expect(answers == [{"mine": False}] * 3, f"the last attempts returned {answers!r}")


@scenario(
    "an effect once for ever whose end is unknown is refused in the handler's own transaction until it is released",
    "a payment is booked a second time, beside the run that makes it, or after a worker that died beside it",
)
def once_in_doubt(harness: Harness) -> None:
    invoice = {"key": "invoice:812"}
    harness.start()
    first = harness.one("effect", {**invoice, "holds": 60})
    harness.noted(first, f"new {uuid5(UUID(harness.run(first)['uuid']), invoice['key'])}")
    sentence = f"run {first} began the effect {invoice['key']}, and its end is not recorded: roll this transaction back"
    for state in ("while another run executes the effect", "while the effect is in doubt"):
        run = harness.one("once", invoice)
        harness.succeeded(run)
        answer = harness.run(run)["result"]
        expect(answer == {"refused": sentence}, f"{state}, the handler returned {answer!r}")
        expect(not harness.notes(run), f"the effect happened {state}")
        harness.do(b"select * from wakeboard.cancel(array[%s::bigint])", first)
        harness.ended(first, "cancelled")
    harness.do(b"select wakeboard.release_effect(%s, 'it did not happen')", invoice["key"])
    run = harness.one("once", invoice)
    harness.succeeded(run)
    expect(len(harness.notes(run)) == 1, f"after the release, the effect happened {times(len(harness.notes(run)))}")
