"""A small model of leases: two workers, a reaper, a clock and a store, in every order of their steps.

A request is sent, and arrives at the store or never does. Its reply is read or lost; after a lost reply the worker
sends the request again, while the first one may still be running. A claim takes two steps, as a statement in Postgres
does: it reads a snapshot, then it locks the row and writes. So does `reap`. Every process may pause at any step. The
rules are those of `wakeboard/engine/sql`. Each guard among them has a name and can be removed.

The worlds are small enough for a complete search:

    fence     one run; workers that do not check their clocks, requests that arrive late or twice, effects in
              transactions that stay open
    failover  the same without effects and repeats; a replica takes over without the last claim
    forgetful the server forgets its last commits, and gives the id to another run, whose lease is the next one here;
              outcomes of the lost lease still arrive
    restore   the server forgets its last commit, an effect or a completion, and keeps the claim; the worker does not
              know it, and goes on
    validity  one run, a lease of three ticks, workers that send heartbeats and stop without validity. A frozen worker
              is one that does nothing more: it checks its clock before it continues
    limit     two runs with one limit key that allows one run at once
    rate      two runs with one limit key whose rate limit has one unit
    waiting   two runs, of which one waits until the other has succeeded
    termination
              one run; one process may be killed at any step, and another one starts in its place. Its end is reported
              late, or several times, or never, in two steps as a reap. What it had sent may still arrive
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tests.model.lease_state import (
    CRASHES,
    PROMPT,
    Attempt,
    Effect,
    Request,
    Run,
    Setup,
    State,
    Worker,
    new_process,
    number_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Step: TypeAlias = "tuple[str, State]"  # what happened, and the next state
Transition: TypeAlias = "tuple[int, str, State]"  # the worker that it depends on, or 0; and the step
Answer: TypeAlias = "tuple[str, State, Request]"

AT_THE_STORE = {"sent", "locked", "read", "half"}
ANSWERED = {"accepted", "refused"}


def transitions(setup: Setup, state: State) -> Iterator[Transition]:
    """Every possible next step. Worker 1 is the one that claims first."""
    if setup.margins and all(run.status == "dead" for run in state.runs):
        return  # no worker claims it any more
    for number in (1, 2) if any(run.claims for run in state.runs) else (1,):
        for event, then in _worker(setup, state, number):
            yield number, event, then
        for event, then in _requests(setup, state, number):
            yield 0, event, then
        for event, then in _transaction(setup, state, number):
            yield 0, event, then
        for event, then in _kill(setup, state, number):
            yield number, event, then
    for steps in (_reaper, _terminations, _clock, _failover, _restore, _unit, _maintenance):
        for event, then in steps(setup, state):
            yield 0, event, then


# -- workers -----------------------------------------------------------------------------------------------------------


def _worker(setup: Setup, state: State, number: int) -> Iterator[Step]:
    me, name = state.workers[number - 1], f"worker {number}"
    if not me.alive:
        return
    if me.claim is None and me.attempt is None and me.validity:
        yield f"{name} asks for a run", state.with_worker(number, claim=Request("claim", by=me.process))
    if me.claim and me.claim.stage == "taken":
        yield _read_claim(setup, state, number, me.claim)
    if setup.returns and me.attempt and not me.attempt.done and me.effect is None:
        done = me.attempt._replace(done=True)
        yield f"{name}'s handler returns", state.with_worker(number, attempt=done)
    if me.attempt and me.attempt.done:
        yield from _reports(setup, state, number, me.attempt)
    if setup.margins:
        yield from _heartbeats(setup, state, number)


def _read_claim(setup: Setup, state: State, number: int, claim: Request) -> Step:
    """A worker discards a claim reply that is late, or that it reads without validity: the lease may have expired."""
    accepted = (claim.age <= PROMPT or not setup.has("a late claim reply is discarded")) and (
        state.workers[number - 1].validity > 0 or not setup.has("a claim reply needs validity when it is read")
    )
    event = f"worker {number} reads that it has run {claim.run}" if accepted else f"worker {number} discards the reply"
    return event, state.with_worker(number, claim=None, attempt=claim.about if accepted else None)


def _reports(setup: Setup, state: State, number: int, attempt: Attempt) -> Iterator[Step]:
    me, name = state.workers[number - 1], f"worker {number}"
    if me.report is None:
        for what in (
            ("complete", "release") if setup.releases and state.runs[attempt.run].released == 0 else ("complete",)
        ):
            yield f"{name} sends {what}", state.with_worker(number, report=Request(what, attempt, by=me.process))
        return
    if me.report.stage in ANSWERED:
        yield f"{name} reads that it was {me.report.stage}", state.with_worker(number, report=None, attempt=None)
    if setup.repeats and me.report.stage in ANSWERED:
        again = me.report._replace(stage="sent")
        yield f"{name} loses that reply and sends again", state.with_worker(number, report=again)
    if setup.repeats and me.report.stage == "sent" and me.lost_request is None:
        then = state.with_worker(number, lost_request=me.report)
        yield f"{name} loses its connection and sends again, while the store still runs the first request", then


def _heartbeats(setup: Setup, state: State, number: int) -> Iterator[Step]:
    me, name = state.workers[number - 1], f"worker {number}"
    if me.heartbeat is None:
        yield (
            f"{name} sends a heartbeat",
            state.with_worker(number, heartbeat=Request("renew", me.attempt, by=me.process)),
        )
    elif me.heartbeat.stage in ANSWERED:
        late = me.heartbeat.age if setup.has("validity counts from sending") else 0
        then = state.with_worker(number, heartbeat=None, validity=max(0, setup.valid_ticks - late))
        if me.heartbeat.stage == "refused" and me.attempt and me.attempt == me.heartbeat.about:
            then = then.with_worker(number, attempt=None)
        yield f"{name} reads that its heartbeat was {me.heartbeat.stage}", then


# -- the store replies -------------------------------------------------------------------------------------------------


def _requests(setup: Setup, state: State, number: int) -> Iterator[Step]:
    """Each request in flight may reach the store now."""
    me = state.workers[number - 1]
    for slot, request in (
        ("claim", me.claim),
        ("report", me.report),
        ("heartbeat", me.heartbeat),
        ("lost_request", me.lost_request),
    ):
        if request and request.stage in AT_THE_STORE:
            unread = slot == "lost_request" or not me.alive
            for event, then, answer in _answers(setup, state, request.by, request):
                over = answer.stage == "nothing" or (unread and answer.stage in ANSWERED | {"taken"})
                yield event, then.with_worker(number, **{slot: None if over else answer})


def _answers(setup: Setup, state: State, number: int, request: Request) -> Iterator[Answer]:
    if request.what == "claim":
        yield from _claim(setup, state, number, request)
    elif request.what == "renew":
        yield _renew(setup, state, number, request)
    elif request.about and not _row_locked(setup, state, request.about.run):  # it waits for the handler's transaction
        answer = _complete if request.what == "complete" else _release
        yield from answer(setup, state, number, request, request.about)


def _row_locked(setup: Setup, state: State, run: int) -> bool:
    """Whether a handler's open transaction has locked the run."""
    return setup.has("once locks the run") and state.effect_open(run)


def _claim(setup: Setup, state: State, number: int, request: Request) -> Iterator[Answer]:
    name = f"the claim of worker {number}"
    lock_first = setup.limit is not None and setup.has("slots are counted after the lock")
    if lock_first and request.stage == "sent":
        yield _lock_key(setup, state, number, request._replace(stage="locked"))
    elif request.stage in {"sent", "locked"}:
        found = [run for run, row in enumerate(state.runs) if _free(setup, row)] if _may_start(setup, state) else []
        for run in found:
            read = request._replace(stage="read", run=run)
            yield (
                (f"{name} looks at run {run}", state, read) if setup.in_two_steps else _take(setup, state, number, read)
            )
        if not found:
            key = 0 if state.key == number else state.key
            yield f"{name} finds nothing", state._replace(key=key), request._replace(stage="nothing")
    elif setup.limit is not None and not lock_first and state.key != number:
        yield _lock_key(setup, state, number, request)
    else:
        yield _take(setup, state, number, request)


def _free(setup: Setup, run: Run) -> bool:
    """Whether a claim may take the run: it is queued, and has no lease, not even an expired one."""
    if run.status == "waiting":
        return not setup.has("a run that waits is not due")
    if setup.has("claim takes free runs only"):
        return run.status == "queued"
    return run.status == "queued" or (run.status == "running" and run.left == 0)


def _slots(setup: Setup, state: State) -> int:
    """Free slots of the limit in a snapshot of this state."""
    if setup.limit is None or not setup.has("slots are counted"):
        return 1
    running = [run for run in state.runs if run.status == "running"]
    return setup.limit - len([run for run in running if run.left or setup.has("an expired lease keeps its slot")])


def _may_start(setup: Setup, state: State) -> bool:
    """Whether the limit and the rate limit have room in a snapshot of this state."""
    units = setup.burst is None or state.units < setup.burst or not setup.has("units are counted")
    return units and _slots(setup, state) > 0


def _lock_key(setup: Setup, state: State, number: int, then: Request) -> Answer:
    name = f"the claim of worker {number}"
    if state.key == 0 or not setup.has("the limit's row is locked"):
        return f"{name} locks the key", state._replace(key=number), then
    return f"{name} skips the key", state, then._replace(stage="nothing")


def _take(setup: Setup, state: State, number: int, request: Request) -> Answer:
    """Locks the row, checks it again as it is now, and writes it."""
    name, row = f"the claim of worker {number}", state.runs[request.run]
    state = state._replace(key=0 if state.key == number else state.key)
    if setup.has("claim checks again under the row's lock"):
        if _row_locked(setup, state, request.run):
            if not setup.has("claim skips locked rows"):
                state = state._replace(wrong="a claim waits for a handler's transaction")
            return f"{name} finds a locked row", state, request._replace(stage="nothing")
        if not _free(setup, row):
            return f"{name} finds run {request.run} taken", state, request._replace(stage="nothing")
    never_twice = setup.random_steps and setup.has("an epoch never comes twice")
    step = 1 + row.lost if never_twice else 1  # any number that no lost claim has had
    epoch, nth = row.epoch + step * setup.has("claim's epoch"), row.claims + 1
    then = state.with_run(
        request.run, status="running", by=number, epoch=epoch, left=setup.lease, claims=nth, void=False
    )
    if setup.burst is not None:
        taken = state.units + setup.has("a start takes its unit in the statement of the claim")
        then = then._replace(units=taken, starts=state.starts + 1)
    lease = Attempt(request.run, epoch, nth)
    return f"{name} takes run {request.run}, epoch {epoch}", then, request._replace(stage="taken", about=lease)


def _named(setup: Setup, row: Run, number: int, epoch: int, outcome: str) -> bool:
    """Whether the row, live or in history, has the lease (number, epoch)."""
    return (row.by == number or not setup.has(f"{outcome} checks the worker")) and (
        row.epoch == epoch or not setup.has(f"{outcome} checks the epoch")
    )


def _complete(setup: Setup, state: State, number: int, request: Request, attempt: Attempt) -> Iterator[Answer]:
    run, row = attempt.run, state.runs[attempt.run]
    event = f"the store completes run {run} for worker {number}, epoch {attempt.epoch}"
    accepted, awaited = row.accepted | {attempt.nth}, setup.waits and run == 0
    leased = row.status == "running" and not row.void and _named(setup, row, number, attempt.epoch, "complete")
    if request.stage == "half":
        yield f"{event}: into history", state.with_run(run, status="succeeded", accepted=accepted), _yes(request)
        yield "the store is killed", state._replace(wrong="a run is lost"), _no(request)
    elif leased and not setup.has("complete is one statement"):
        yield f"{event}: out of job_runs", state.with_run(run, status="vanished"), request._replace(stage="half")
    elif leased:
        then = state.with_run(run, status="succeeded", by=number, epoch=attempt.epoch, left=0, accepted=accepted)
        foreign = setup.random_steps and row.claims != attempt.nth
        wrong = "the outcome of a lost attempt was accepted for another run" if foreign else ""
        wrong = "an outcome was accepted, and its effect is lost" if row.forgot else wrong
        yield event, then._replace(noted=awaited, wrong=wrong), _yes(request)
        if awaited and not setup.has("the statement that ends a run notes the end"):
            yield f"{event}, and the end is not noted", then, _yes(request)
    elif (
        row.status == "succeeded"
        and _named(setup, row, number, attempt.epoch, "complete")
        and setup.has("complete recognises its repeats")
    ):
        yield f"{event}, again", state.with_run(run, accepted=accepted), _yes(request)
    else:
        wrong = "an accepted completion was reported as refused" if attempt.nth in row.accepted else ""
        event = f"the store refuses worker {number}, epoch {attempt.epoch}"
        yield event, state._replace(wrong=wrong), _no(request)


def _release(setup: Setup, state: State, number: int, request: Request, attempt: Attempt) -> Iterator[Answer]:
    """`release` and `fail`: the attempt has ended, and the run goes back."""
    run, row = attempt.run, state.runs[attempt.run]
    event = f"the store takes run {run} back from worker {number}, epoch {attempt.epoch}"
    if row.status == "running" and not row.void and _named(setup, row, number, attempt.epoch, "release"):
        wrong = "" if row.claims == attempt.nth else "an attempt that had ended ended another one"
        then = state.with_run(
            run, status="queued", by=0, left=0, released=row.released + 1, ended="released", forgot=False
        )
        yield event, then._replace(wrong=wrong), _yes(request)
    elif row.status == "queued" and row.epoch == attempt.epoch:
        wrong = "" if row.ended == "released" else "an outcome was reported as accepted, and was not"
        yield f"{event}, again", state._replace(wrong=wrong), _yes(request)
    else:
        yield f"the store refuses worker {number}, epoch {attempt.epoch}", state, _no(request)


def _renew(setup: Setup, state: State, number: int, request: Request) -> Answer:
    event, lease = f"the heartbeat of worker {number} arrives", request.about
    if lease is None:
        return event, state, _yes(request)
    row = state.runs[lease.run]
    named = ((row.by, row.epoch) == (number, lease.epoch) and not row.void) or not setup.has("renew checks the lease")
    if row.status == "running" and named and (row.left or not setup.has("renew takes no expired lease")):
        return event, state.with_run(lease.run, left=setup.lease), _yes(request)
    return event, state, _no(request)


def _yes(request: Request) -> Request:
    return request._replace(stage="accepted")


def _no(request: Request) -> Request:
    return request._replace(stage="refused")


# -- effects -----------------------------------------------------------------------------------------------------------


def _transaction(setup: Setup, state: State, number: int) -> Iterator[Step]:
    """The handler's own transaction: once, the effect, the commit; Postgres ends it when the worker is gone."""
    me = state.workers[number - 1]
    if me.effect:
        yield f"the transaction of worker {number} is rolled back", state.with_worker(number, effect=None)
        yield _commit(state, number, me.effect)
    elif setup.effects and me.alive and me.attempt and not me.attempt.done:
        row, unique = state.runs[me.attempt.run], setup.has("an effect's key is unique")
        named = row.status == "running" and not row.void and (row.by, row.epoch) == (me.process, me.attempt.epoch)
        waits = unique and state.effect_open(me.attempt.run)  # for the other transaction, which has that key
        if (named or not setup.has("once checks the lease")) and not waits:
            begun = Effect(me.attempt, first=row.effects == 0 or not unique)
            yield f"worker {number} calls once in its transaction", state.with_worker(number, effect=begun)


def _commit(state: State, number: int, effect: Effect) -> Step:
    then = state.with_worker(number, effect=None)
    if effect.first:
        row = state.runs[effect.attempt.run]
        over = row.status != "running" or row.claims != effect.attempt.nth
        then = then.with_run(effect.attempt.run, effects=row.effects + 1)
        then = then._replace(wrong="an attempt that had ended had its effect" if over else "")
    return f"worker {number} commits", then


# -- the reaper, terminations, the clock, the failover -----------------------------------------------------------------


def _reaper(setup: Setup, state: State) -> Iterator[Step]:
    run = state.reaper
    if not setup.has("expired leases are reaped"):
        return
    if run < 0:
        for number, row in enumerate(state.runs):
            if _expired(setup, row) and setup.in_two_steps:
                yield f"reap looks at run {number}", state._replace(reaper=number)
            elif _expired(setup, row):
                yield _reap(setup, state, number)
        return
    row, state = state.runs[run], state._replace(reaper=-1)
    if _row_locked(setup, state, run):
        wrong = "" if setup.has("reap skips locked rows") else "reap waits for a handler's transaction"
        yield f"reap meets run {run} locked", state._replace(wrong=wrong)
    elif _expired(setup, row) or (row.status == "running" and not setup.has("reap checks again under the row's lock")):
        yield _reap(setup, state, run)
    else:
        yield f"reap finds run {run} alive", state


def _expired(setup: Setup, row: Run) -> bool:
    return row.status == "running" and (row.left == 0 or row.void or not setup.has("reap takes expired leases only"))


def _reap(setup: Setup, state: State, run: int) -> Step:
    row = state.runs[run]
    if row.void and setup.has("a void lease counts no crash"):
        voided = row._replace(status="queued", by=0, left=0, epoch=row.epoch + 1, ended="voided", voided=row.voided + 1)
        return f"reap gives run {run} back", state.with_run(run, **voided._replace(void=False, forgot=False)._asdict())
    then = _crash(state, run, epoch=setup.has("reap's epoch"), mortal=setup.has("the last crash makes a run dead"))
    wrong = "a valid lease was reaped" if row.left else ""
    wrong = "a crash was counted for a lease from before a restore" if row.void else wrong
    return f"reap takes run {run} back, crash {row.crashes + 1}", then._replace(wrong=wrong)


def _crash(state: State, run: int, *, epoch: bool, mortal: bool) -> State:
    """Whether the statement that counts the crash has its two guards."""
    row = state.runs[run]
    return state.with_run(
        run,
        status="dead" if row.crashes + 1 >= CRASHES and mortal else "queued",
        by=0,
        left=0,
        epoch=row.epoch + epoch,
        crashes=row.crashes + 1,
        ended="crashed",
    )


def _kill(setup: Setup, state: State, number: int) -> Iterator[Step]:
    """A process ends, and no process reads its replies. Of its requests in flight, one may outlive the next start."""
    me = state.workers[number - 1]
    if not setup.kills:
        return
    if not me.alive:
        late = next((sent for sent in (me.report, me.claim) if sent and sent.stage in AT_THE_STORE), me.lost_request)
        again = new_process(setup, number + 2)._replace(lost_request=late, effect=me.effect)
        yield f"worker {number} starts again", _with(state, number, again)
    elif all(each.alive and each.process <= len(state.workers) for each in state.workers):
        sent = {
            slot: request if request and request.stage in AT_THE_STORE else None
            for slot, request in (("claim", me.claim), ("report", me.report))
        }
        yield f"worker {number} is killed", state.with_worker(number, alive=False, attempt=None, **sent)


def _with(state: State, number: int, worker: Worker) -> State:
    return state.with_worker(number, **worker._asdict())


def _terminations(setup: Setup, state: State) -> Iterator[Step]:
    """The operator reports a process that has ended: a late report and a repeated one, too."""
    if not setup.kills:
        return
    if state.report is None:
        for process in _reported(setup, state):
            for number, row in enumerate(state.runs):
                if _is_of(setup, row, process):
                    yield (
                        f"a report of process {process} looks at run {number}",
                        state._replace(report=(process, number)),
                    )
        return
    (process, run), state = state.report, state._replace(report=None)
    row, again = state.runs[run], setup.has("a report checks again under the row's lock")
    if _row_locked(setup, state, run):
        wrong = "" if setup.has("a report skips locked rows") else "a report waits for a handler's transaction"
        yield f"the report meets run {run} locked", state._replace(wrong=wrong)
    elif _is_of(setup, row, process) or (row.status == "running" and not again):
        living = any(worker.alive and worker.process == row.by for worker in state.workers)
        then = _crash(
            state,
            run,
            epoch=setup.has("a report's epoch"),
            mortal=setup.has("the last reported crash makes a run dead"),
        )
        wrong = "a lease of a living process was ended" if living else ""
        yield f"the report takes run {run} from process {row.by}, crash {row.crashes + 1}", then._replace(wrong=wrong)
    else:
        yield f"the report finds run {run} without it", state


def _reported(setup: Setup, state: State) -> list[int]:
    """The processes whose end may be reported."""
    seen = [process for worker in state.workers for process in range(number_of(worker.process), worker.process + 1, 2)]
    living = {worker.process for worker in state.workers if worker.alive}
    return [process for process in seen if process not in living or not setup.has("only an ended process is reported")]


def _is_of(setup: Setup, row: Run, process: int) -> bool:
    """Whether a report of this process may take the run."""
    if not setup.has("a report checks the worker"):
        return row.status == "running"
    if not setup.has("a restarted process has another id"):
        return row.status == "running" and number_of(row.by) == number_of(process)
    return row.status == "running" and row.by == process


def _clock(setup: Setup, state: State) -> Iterator[Step]:
    """A tick of the store's clock and of every worker's."""
    runs = tuple(run._replace(left=max(0, run.left - 1)) for run in state.runs)
    one, two = state.workers
    workers = (_older(setup, one), _older(setup, two)) if setup.margins else (one, two)
    then = state._replace(runs=runs, workers=workers)
    if then != state:
        yield "a tick of the clock", then


def _older(setup: Setup, worker: Worker) -> Worker:
    """A worker drops its attempt when its validity ends."""
    stops = worker.validity == 1 and setup.has("a worker stops without validity")
    return worker._replace(
        validity=max(0, worker.validity - 1),
        claim=worker.claim and worker.claim._replace(age=min(worker.claim.age + 1, PROMPT + 1)),
        heartbeat=worker.heartbeat and worker.heartbeat._replace(age=min(worker.heartbeat.age + 1, setup.valid_ticks)),
        attempt=None if stops else worker.attempt,
    )


def _unit(setup: Setup, state: State) -> Iterator[Step]:
    """A unit of the rate limit comes back."""
    if state.starts:
        then = state._replace(units=max(0, state.units - 1), starts=state.starts - 1)
        yield "a unit comes back", then


def _maintenance(setup: Setup, state: State) -> Iterator[Step]:
    """Maintenance lets the run start that waits."""
    if state.noted:
        yield "maintenance lets run 1 start", state.with_run(1, status="queued")._replace(noted=False)
        if not setup.has("an end is consumed by the statement that passes it on"):
            yield "maintenance is killed after it has read the end", state._replace(noted=False)


def _failover(setup: Setup, state: State) -> Iterator[Step]:
    """The last claim was not replicated: the run is as before, and the worker may claim again."""
    for number, row in enumerate(state.runs) if setup.failover else ():
        if row.status == "running" and row.lost == 0:
            epoch = row.epoch - setup.has("claim's epoch")
            then = state.with_run(number, status="queued", by=0, epoch=epoch, left=0, lost=1)
            yield f"a failover loses the claim of run {number}", then


def _restore(setup: Setup, state: State) -> Iterator[Step]:
    """The last commit is lost, which was an effect or a completion. All transactions end; requests may still arrive."""
    void = setup.has("a lease from before a restore is void")
    for number, row in enumerate(state.runs) if setup.forgets else ():
        if row.voided or row.void or row.forgot:
            continue
        then = state
        for worker in (1, 2):
            then = then.with_worker(worker, effect=None)
        if row.status == "running" and row.effects:
            yield "the server forgets an effect", then.with_run(number, effects=0, forgot=True, void=void)
        if row.status == "succeeded":
            then = then.with_run(number, status="running", left=setup.lease, accepted=frozenset[int](), void=void)
            yield "the server forgets a completion", then
