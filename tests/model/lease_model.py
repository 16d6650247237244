"""A small model of leases: two workers, a reaper and a clock at one board, in every order that they may come.

A request travels: it is sent, it arrives at the board (or never), its answer is read (or lost, and the request is sent
again while the first one may still be under way). A claim arrives in two steps, as a statement in Postgres does: it
looks at a snapshot, then it locks the row and writes. So does `reap`. Anybody may stop for as long as they like.
What a move does is copied from `wakeboard/store/functions`; each guard in it has a name and can be taken away.

The worlds are small enough to be walked to their ends:

    fence     one run; workers who do not look at their clocks, requests that arrive too late or twice, effects in
              transactions that stay open
    failover  the same without effects and repeats; a replica takes over that has not heard of the last claim
    trust     one run, a lease of three ticks, workers who send heartbeats and stop by themselves. One that is frozen is
              one that works no more: it looks at its clock before it goes on
    limit     two runs behind one limit key that lets one run at once
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tests.model.lease_state import CRASHES, PROMPT, Asked, Attempt, Effect, Run, State, Worker, World

if TYPE_CHECKING:
    from collections.abc import Iterator

Step: TypeAlias = "tuple[str, State]"  # what happened, and what is then
Move: TypeAlias = "tuple[int, str, State]"  # the worker without whom it would not happen, or 0; and the step
Answer: TypeAlias = "tuple[str, State, Asked]"

AT_THE_BOARD = {"sent", "locked", "looked", "half"}
TOLD = {"accepted", "refused"}


def moves(world: World, state: State) -> Iterator[Move]:
    """Everything that may happen next. Worker 1 is whoever claims first."""
    if world.margins and all(run.status == "dead" for run in state.runs):
        return  # nobody claims it, so that nobody meets anybody there
    for number in (1, 2) if any(run.claims for run in state.runs) else (1,):
        for said, then in _worker(world, state, number):
            yield number, said, then
        for said, then in _requests(world, state, number):
            yield 0, said, then
        for said, then in _transaction(world, state, number):
            yield 0, said, then
    for steps in (_reaper, _clock, _failover):
        for said, then in steps(world, state):
            yield 0, said, then


# -- workers -----------------------------------------------------------------------------------------------------------


def _worker(world: World, state: State, number: int) -> Iterator[Step]:
    me, name = state.workers[number - 1], f"worker {number}"
    if me.claim is None and me.attempt is None and me.trust:
        yield f"{name} asks for a run", state.with_worker(number, claim=Asked("claim"))
    if me.claim and me.claim.stage == "taken":
        yield _read_claim(world, state, number, me.claim)
    if world.returns and me.attempt and not me.attempt.done and me.effect is None:
        done = me.attempt._replace(done=True)
        yield f"{name}'s handler returns", state.with_worker(number, attempt=done)
    if me.attempt and me.attempt.done:
        yield from _tells(world, state, number, me.attempt)
    if world.margins:
        yield from _beats(world, state, number)


def _read_claim(world: World, state: State, number: int, claim: Asked) -> Step:
    """A claim that was answered too late, or after the trust was over, is not believed: its lease may lapse unseen."""
    believed = (claim.age <= PROMPT or not world.has("a late claim is not believed")) and (
        state.workers[number - 1].trust > 0 or not world.has("a claim needs trust when it is read")
    )
    said = f"worker {number} reads that it has run {claim.run}" if believed else f"worker {number} takes nothing"
    return said, state.with_worker(number, claim=None, attempt=claim.about if believed else None)


def _tells(world: World, state: State, number: int, attempt: Attempt) -> Iterator[Step]:
    me, name = state.workers[number - 1], f"worker {number}"
    if me.tell is None:
        for what in ("complete", "give") if world.gives and state.runs[attempt.run].given == 0 else ("complete",):
            yield f"{name} sends {what}", state.with_worker(number, tell=Asked(what, attempt))
        return
    if me.tell.stage in TOLD:
        yield f"{name} reads that it was {me.tell.stage}", state.with_worker(number, tell=None, attempt=None)
    if world.repeats and me.tell.stage in TOLD:
        again = me.tell._replace(stage="sent")
        yield f"{name} loses that answer and asks again", state.with_worker(number, tell=again)
    if world.repeats and me.tell.stage == "sent" and me.ghost is None:
        then = state.with_worker(number, ghost=me.tell)
        yield f"{name} loses its connection and asks again, while the board is at it still", then


def _beats(world: World, state: State, number: int) -> Iterator[Step]:
    me, name = state.workers[number - 1], f"worker {number}"
    if me.beat is None:
        yield f"{name} sends a heartbeat", state.with_worker(number, beat=Asked("renew", me.attempt))
    elif me.beat.stage in TOLD:
        late = me.beat.age if world.has("trust counts from sending") else 0
        then = state.with_worker(number, beat=None, trust=max(0, world.trusted - late))
        if me.beat.stage == "refused" and me.attempt and me.attempt == me.beat.about:
            then = then.with_worker(number, attempt=None)
        yield f"{name} reads that its heartbeat was {me.beat.stage}", then


# -- the board answers -------------------------------------------------------------------------------------------------


def _requests(world: World, state: State, number: int) -> Iterator[Step]:
    """Each request under way may reach the board now."""
    me = state.workers[number - 1]
    for slot, asked in (("claim", me.claim), ("tell", me.tell), ("beat", me.beat), ("ghost", me.ghost)):
        if asked and asked.stage in AT_THE_BOARD:
            for said, then, answer in _answers(world, state, number, asked):
                over = answer.stage == "nothing" or (slot == "ghost" and answer.stage in TOLD)
                yield said, then.with_worker(number, **{slot: None if over else answer})


def _answers(world: World, state: State, number: int, asked: Asked) -> Iterator[Answer]:
    if asked.what == "claim":
        yield from _claim(world, state, number, asked)
    elif asked.what == "renew":
        yield _renew(world, state, number, asked)
    elif asked.about and not _row_locked(world, state, asked.about.run):  # it waits for the handler's transaction
        answer = _complete if asked.what == "complete" else _give
        yield from answer(world, state, number, asked, asked.about)


def _row_locked(world: World, state: State, run: int) -> bool:
    """Whether a handler's open transaction holds the run."""
    return world.has("once locks the run") and state.effect_open(run)


def _claim(world: World, state: State, number: int, asked: Asked) -> Iterator[Answer]:
    name = f"the claim of worker {number}"
    lock_first = world.limit is not None and world.has("slots are counted after the lock")
    if lock_first and asked.stage == "sent":
        yield _lock_key(world, state, number, asked._replace(stage="locked"))
    elif asked.stage in {"sent", "locked"}:
        found = [run for run, row in enumerate(state.runs) if _free(world, row)] if _slots(world, state) > 0 else []
        for run in found:
            looked = asked._replace(stage="looked", run=run)
            yield (
                (f"{name} looks at run {run}", state, looked)
                if world.in_two_steps
                else _take(world, state, number, looked)
            )
        if not found:
            key = 0 if state.key == number else state.key
            yield f"{name} finds nothing", state._replace(key=key), asked._replace(stage="nothing")
    elif world.limit is not None and not lock_first and state.key != number:
        yield _lock_key(world, state, number, asked)
    else:
        yield _take(world, state, number, asked)


def _free(world: World, run: Run) -> bool:
    """What a claim may take: a run that waits and that nobody holds, not even under a lease that has lapsed."""
    if world.has("claim takes free runs only"):
        return run.status == "queued"
    return run.status == "queued" or (run.status == "running" and run.left == 0)


def _slots(world: World, state: State) -> int:
    """Free slots of the limit, as a snapshot of now shows them."""
    if world.limit is None or not world.has("slots are counted"):
        return 1
    running = [run for run in state.runs if run.status == "running"]
    return world.limit - len([run for run in running if run.left or world.has("a lapsed lease keeps its slot")])


def _lock_key(world: World, state: State, number: int, then: Asked) -> Answer:
    name = f"the claim of worker {number}"
    if state.key == 0 or not world.has("the limit's row is locked"):
        return f"{name} locks the key", state._replace(key=number), then
    return f"{name} passes the key by", state, then._replace(stage="nothing")


def _take(world: World, state: State, number: int, asked: Asked) -> Answer:
    """The row is locked and looked at once more, as it is now; then it is written."""
    name, row = f"the claim of worker {number}", state.runs[asked.run]
    state = state._replace(key=0 if state.key == number else state.key)
    if world.has("claim looks again under the row's lock"):
        if _row_locked(world, state, asked.run):
            if not world.has("claim skips locked rows"):
                state = state._replace(wrong="a claim waits for a handler's transaction")
            return f"{name} meets a locked row", state, asked._replace(stage="nothing")
        if not _free(world, row):
            return f"{name} finds run {asked.run} taken", state, asked._replace(stage="nothing")
    epoch, nth = row.epoch + world.has("claim's epoch"), row.claims + 1
    then = state.with_run(asked.run, status="running", by=number, epoch=epoch, left=world.lease, claims=nth)
    lease = Attempt(asked.run, epoch, nth)
    return f"{name} takes run {asked.run}, epoch {epoch}", then, asked._replace(stage="taken", about=lease)


def _named(world: World, row: Run, number: int, epoch: int, move: str) -> bool:
    """Whether the row, live or in history, stands under the lease (number, epoch)."""
    return (row.by == number or not world.has(f"{move} checks the worker")) and (
        row.epoch == epoch or not world.has(f"{move} checks the epoch")
    )


def _complete(world: World, state: State, number: int, asked: Asked, attempt: Attempt) -> Iterator[Answer]:
    run, row = attempt.run, state.runs[attempt.run]
    said = f"the board completes run {run} for worker {number}, epoch {attempt.epoch}"
    told = row.accepted | {attempt.nth}
    if asked.stage == "half":
        yield f"{said}: into history", state.with_run(run, status="succeeded", accepted=told), _yes(asked)
        yield "the board is killed", state._replace(wrong="a run is lost"), _no(asked)
    elif row.status == "running" and _named(world, row, number, attempt.epoch, "complete"):
        if world.has("complete is one statement"):
            then = state.with_run(run, status="succeeded", by=number, epoch=attempt.epoch, left=0, accepted=told)
            yield said, then, _yes(asked)
        else:
            yield f"{said}: out of job_runs", state.with_run(run, status="vanished"), asked._replace(stage="half")
    elif (
        row.status == "succeeded"
        and _named(world, row, number, attempt.epoch, "complete")
        and world.has("complete knows its repeats")
    ):
        yield f"{said}, again", state.with_run(run, accepted=told), _yes(asked)
    else:
        wrong = "a completion that counts was answered as refused" if attempt.nth in row.accepted else ""
        said = f"the board refuses worker {number}, epoch {attempt.epoch}"
        yield said, state._replace(wrong=wrong), _no(asked)


def _give(world: World, state: State, number: int, asked: Asked, attempt: Attempt) -> Iterator[Answer]:
    """`release` and `fail`: the attempt has ended, and the run goes back."""
    run, row = attempt.run, state.runs[attempt.run]
    said = f"the board takes run {run} back from worker {number}, epoch {attempt.epoch}"
    if row.status == "running" and _named(world, row, number, attempt.epoch, "give"):
        wrong = "" if row.claims == attempt.nth else "an attempt that was over has ended another one"
        then = state.with_run(run, status="queued", by=0, left=0, given=row.given + 1, ended="given")
        yield said, then._replace(wrong=wrong), _yes(asked)
    elif row.status == "queued" and row.epoch == attempt.epoch:
        wrong = "" if row.ended == "given" else "an outcome was answered as accepted, and was not"
        yield f"{said}, again", state._replace(wrong=wrong), _yes(asked)
    else:
        yield f"the board refuses worker {number}, epoch {attempt.epoch}", state, _no(asked)


def _renew(world: World, state: State, number: int, asked: Asked) -> Answer:
    said, held = f"the heartbeat of worker {number} arrives", asked.about
    if held is None:
        return said, state, _yes(asked)
    row = state.runs[held.run]
    named = (row.by, row.epoch) == (number, held.epoch) or not world.has("renew checks the lease")
    if row.status == "running" and named and (row.left or not world.has("renew takes no lapsed lease")):
        return said, state.with_run(held.run, left=world.lease), _yes(asked)
    return said, state, _no(asked)


def _yes(asked: Asked) -> Asked:
    return asked._replace(stage="accepted")


def _no(asked: Asked) -> Asked:
    return asked._replace(stage="refused")


# -- effects -----------------------------------------------------------------------------------------------------------


def _transaction(world: World, state: State, number: int) -> Iterator[Step]:
    """The handler's own transaction: once, the effect, the commit; Postgres ends it when the worker is gone."""
    me = state.workers[number - 1]
    if me.effect:
        yield f"the transaction of worker {number} is rolled back", state.with_worker(number, effect=None)
        yield _commit(state, number, me.effect)
    elif world.effects and me.attempt and not me.attempt.done:
        row, unique = state.runs[me.attempt.run], world.has("an effect's key is unique")
        named = row.status == "running" and (row.by, row.epoch) == (number, me.attempt.epoch)
        waits = unique and state.effect_open(me.attempt.run)  # for the other transaction, which has that key
        if (named or not world.has("once checks the lease")) and not waits:
            begun = Effect(me.attempt, first=row.effects == 0 or not unique)
            yield f"worker {number} calls once in its transaction", state.with_worker(number, effect=begun)


def _commit(state: State, number: int, effect: Effect) -> Step:
    then = state.with_worker(number, effect=None)
    if effect.first:
        row = state.runs[effect.attempt.run]
        over = row.status != "running" or row.claims != effect.attempt.nth
        then = then.with_run(effect.attempt.run, effects=row.effects + 1)
        then = then._replace(wrong="an attempt that was over has had its effect" if over else "")
    return f"worker {number} commits", then


# -- the reaper, the clock, the failover -------------------------------------------------------------------------------


def _reaper(world: World, state: State) -> Iterator[Step]:
    run = state.reaper
    if not world.has("lapsed leases are taken back"):
        return
    if run < 0:
        for number, row in enumerate(state.runs):
            if _to_reap(world, row) and world.in_two_steps:
                yield f"reap looks at run {number}", state._replace(reaper=number)
            elif _to_reap(world, row):
                yield _take_back(world, state, number)
        return
    row, state = state.runs[run], state._replace(reaper=-1)
    if _row_locked(world, state, run):
        wrong = "" if world.has("reap skips locked rows") else "reap waits for a handler's transaction"
        yield f"reap meets run {run} locked", state._replace(wrong=wrong)
    elif _to_reap(world, row) or (row.status == "running" and not world.has("reap looks again under the row's lock")):
        yield _take_back(world, state, run)
    else:
        yield f"reap finds run {run} alive", state


def _to_reap(world: World, row: Run) -> bool:
    return row.status == "running" and (row.left == 0 or not world.has("reap takes lapsed leases only"))


def _take_back(world: World, state: State, run: int) -> Step:
    row = state.runs[run]
    dead = row.crashes + 1 >= CRASHES and world.has("the last crash makes a run dead")
    then = state.with_run(
        run,
        status="dead" if dead else "queued",
        by=0,
        left=0,
        epoch=row.epoch + world.has("reap's epoch"),
        crashes=row.crashes + 1,
        ended="crashed",
    )
    wrong = "a lease that holds was taken away" if row.left else ""
    return f"reap takes run {run} back, crash {row.crashes + 1}", then._replace(wrong=wrong)


def _clock(world: World, state: State) -> Iterator[Step]:
    """A tick for the board, and for every worker's own clock."""
    runs = tuple(run._replace(left=max(0, run.left - 1)) for run in state.runs)
    one, two = state.workers
    workers = (_older(world, one), _older(world, two)) if world.margins else (one, two)
    then = state._replace(runs=runs, workers=workers)
    if then != state:
        yield "a tick of the clock", then


def _older(world: World, worker: Worker) -> Worker:
    """A worker whose trust comes to its end drops what it has in hand."""
    stops = worker.trust == 1 and world.has("a worker stops by itself")
    return worker._replace(
        trust=max(0, worker.trust - 1),
        claim=worker.claim and worker.claim._replace(age=min(worker.claim.age + 1, PROMPT + 1)),
        beat=worker.beat and worker.beat._replace(age=min(worker.beat.age + 1, world.trusted)),
        attempt=None if stops else worker.attempt,
    )


def _failover(world: World, state: State) -> Iterator[Step]:
    """The last claim was not replicated: the run is as it was, and who has asked asks again."""
    for number, row in enumerate(state.runs) if world.failover else ():
        if row.status == "running" and row.lost == 0:
            epoch = row.epoch - world.has("claim's epoch")
            then = state.with_run(number, status="queued", by=0, epoch=epoch, left=0, lost=1)
            yield f"a failover loses the claim of run {number}", then
