"""A small worker that needs psycopg only. It is written to be translated into other languages.

docs/workers-in-any-language.md explains each rule, and says what this worker leaves out.
"""

# pyright: basic

import asyncio
import json
import math
import os
import secrets
import signal
import socket
import time
from contextlib import suppress
from types import SimpleNamespace

import psycopg
from psycopg.rows import namedtuple_row

DSN, QUEUES = os.environ["WAKEBOARD_DSN"], os.environ.get("WAKEBOARD_QUEUES", "default").split(",")
CONCURRENCY, POOL = int(os.environ.get("WAKEBOARD_CONCURRENCY", "100")), os.environ.get("WAKEBOARD_POOL", "default")
LEASE_S, GRACE_S = (int(os.environ.get(f"WAKEBOARD_{name}_SECONDS", "30")) for name in ("LEASE", "GRACE"))
POLL_S = float(os.environ.get("WAKEBOARD_POLL_SECONDS", "1"))
WORKER = secrets.randbits(63) | 1  # a new id in each process, never 0


class Outcome(Exception):
    """How an attempt ended. Handlers raise Outcome("discarded"), or "failed" or "snoozed" with a delay in seconds."""

    def __init__(self, word, delay_s=None, error_type="", text="", result=None):
        self.word, self.delay_s, self.error_type, self.text, self.result = word, delay_s, error_type, text, result
        functions = {"succeeded": "complete", "failed": "fail", "timed_out": "fail", "discarded": "fail"}
        self.function = functions.get(word, "release")


class Database:
    """A connection that opens when it is used. It breaks if an answer takes longer than `reply_s`."""

    def __init__(self, reply_s):
        self.reply_s, self.conn = reply_s, None

    async def call(self, function, **values) -> list:
        """Call an SQL function. Raises OperationalError: the database is unavailable, or a row is locked."""
        if self.conn is None or self.conn.closed:
            self.conn = await psycopg.AsyncConnection.connect(DSN, autocommit=True, row_factory=namedtuple_row)
        timer = asyncio.get_running_loop().call_later(self.reply_s, shut_down, self.conn)
        try:
            sql = f"select * from wakeboard.{function}({', '.join(f'{name} => %({name})s' for name in values)})"
            return await (await self.conn.execute(sql.encode(), values)).fetchall()
        finally:
            timer.cancel()


def shut_down(conn):
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


def array(values):
    """Numbers, booleans or names as Postgres reads an array: {1,null,2.5}."""
    return "{" + ",".join("null" if value is None else str(value) for value in values) + "}"


class Worker:
    """Executes runs with `handlers`, coroutines by job type, until SIGTERM."""

    def __init__(self, handlers):
        self.handlers, self.job_types = handlers, list(handlers)
        self.database, self.heartbeats = Database(LEASE_S / 2), Database(LEASE_S / 4)
        self.held = {}  # leases by run id, until their outcome is accepted
        self.wake, self.succeeded = asyncio.Event(), 0
        self.state = None  # of the last answer to fetch_runs
        self.register_at, self.valid_until, self.stop_at = 0, 0, math.inf  # time.monotonic()

    async def work(self):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop)
        heartbeat = asyncio.create_task(self.renew_periodically())
        while self.held or self.stop_at == math.inf:
            self.wake.clear()
            pause = POLL_S
            try:
                await self.report()
                if self.stop_at == math.inf:
                    pause = await self.claim()
            except psycopg.OperationalError as error:
                print(error)
            if time.monotonic() > self.stop_at:  # the grace period is over
                self.cancel(self.held.values(), Outcome("worker_stopped"))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.wake.wait()
        heartbeat.cancel()
        with suppress(psycopg.OperationalError):
            await self.database.call("deregister_worker", worker=WORKER)
        print(f"{self.succeeded} succeeded")

    def stop(self):
        """Claim nothing more. A second signal ends the grace period."""
        self.stop_at = time.monotonic() + (GRACE_S if self.stop_at == math.inf else 0)
        self.wake.set()

    def cancel(self, runs, outcome):
        for run in runs:
            if not run.outcome and not run.requested:
                run.requested = outcome
                run.task.cancel()

    def lose(self, runs):
        """Stop the handlers, and report nothing."""
        self.cancel(runs, Outcome("lost"))
        for run in runs:
            del self.held[run.id]

    # -- claims --------------------------------------------------------------------------------------------------------

    async def register(self):
        sent, host = time.monotonic(), socket.gethostname()
        about = {"worker_id": WORKER, "name": f"{host}-{os.getpid()}", "pool": POOL, "host": host, "version": "1"}
        serves = {"queues": QUEUES, "job_types": self.job_types, "capacity": CONCURRENCY, "lease_s": LEASE_S}
        ((accepted,),) = await self.database.call("register_worker", **about, **serves)
        if not accepted:
            raise SystemExit("the pool is full")
        await self.database.call("create_partitions")
        self.register_at = sent + min(180, LEASE_S)
        self.valid_until = self.valid_until or sent + 0.75 * LEASE_S

    async def claim(self):
        """Claim runs for the free slots, and start their handlers. Returns the seconds until the next claim."""
        if time.monotonic() > self.register_at:
            try:
                await self.register()
            except psycopg.errors.LockNotAvailable:
                if not self.valid_until:
                    raise
                self.register_at = time.monotonic() + 10  # a lock must not stop the claims
        count = CONCURRENCY - len(self.held)
        if count <= 0 or not self.leases_valid():
            return POLL_S
        sent = time.monotonic()
        mine = {"worker": WORKER, "lease_s": LEASE_S, "queues": QUEUES, "job_types": self.job_types}
        asked = {"state": self.state, "alone": not self.held, "within_s": POLL_S}
        *rows, last = await self.database.call("fetch_runs", **mine, **asked, count=count)
        self.state = last.payload["state"]
        for row in rows:
            self.start(row, sent)
        pauses = [last.payload["due_s"], last.payload["retry_s"], POLL_S]
        return 0 if last.payload["again"] else max(0, min(pause for pause in pauses if pause is not None))

    def start(self, row, sent):
        if row.id in self.held:  # under an older lease, which must be lost
            self.lose([self.held[row.id]])
        run = self.held[row.id] = SimpleNamespace(id=row.id, epoch=row.lease_epoch, row=row, payload=row.payload)
        run.began, run.requested, run.outcome = time.monotonic(), None, None
        run.progress, run.message = None, None
        if time.monotonic() < sent + LEASE_S / 4 and self.leases_valid():
            run.task = asyncio.create_task(self.execute(run))
        else:
            run.outcome = Outcome("not_started")

    async def execute(self, run):
        try:
            async with asyncio.timeout(run.row.timeout_s) as limit:
                run.outcome = Outcome("succeeded", result=await self.handlers[run.row.job_type](run))
        except Outcome as chosen:
            run.outcome = chosen
        except asyncio.CancelledError:
            run.outcome = run.requested
        except Exception as error:
            word = "timed_out" if limit.expired() else "failed"
            run.outcome = Outcome(word, error_type=type(error).__name__, text=str(error))
        self.wake.set()

    # -- leases and outcomes -------------------------------------------------------------------------------------------

    def leases_valid(self):
        return time.monotonic() < self.valid_until

    async def renew_periodically(self):
        while True:
            pause, sent, runs = LEASE_S / 4, time.monotonic(), list(self.held.values())
            leases = {"ids": array(run.id for run in runs), "epochs": array(run.epoch for run in runs)}
            ages, progresses = array(sent - run.began for run in runs), array(run.progress for run in runs)
            state = {"ages_s": ages, "progresses": progresses, "messages": [run.message for run in runs]}
            try:
                answers = await self.heartbeats.call("renew", worker=WORKER, lease_s=LEASE_S, **leases, **state)
                self.valid_until = sent + 0.75 * LEASE_S
                for run_id, answer, epoch in answers:
                    run = self.held.get(run_id)
                    if answer == "unregistered":
                        self.register_at = 0
                    elif answer == "busy":
                        pause = min(pause, 0.5)
                    elif run and run.epoch == epoch and not run.outcome:
                        if answer == "cancel":
                            self.cancel([run], Outcome("failed", text="cancelled"))
                        else:
                            self.lose([run])
            except psycopg.OperationalError:
                pause = min(pause, 0.5)
            if not self.leases_valid():
                self.lose(list(self.held.values()))
            await asyncio.sleep(pause)

    async def report(self):
        """Report what has ended, in a statement for each function. What is locked is reported again."""
        batches = {}
        for run in self.held.values():
            if run.outcome:
                batches.setdefault(run.outcome.function, []).append(run)
        for function, runs in batches.items():
            ids, epochs = array(run.id for run in runs), array(run.epoch for run in runs)
            words, delays = [run.outcome.word for run in runs], [run.outcome.delay_s for run in runs]
            if function == "complete":
                values = {"epochs": epochs, "results": json.dumps({run.id: run.outcome.result for run in runs})}
            elif function == "fail":
                types, texts = [run.outcome.error_type for run in runs], [run.outcome.text for run in runs]
                values = {"epochs": epochs, "outcomes": words, "error_types": types, "errors": texts}
                values |= {"stacks": [""] * len(runs), "delays_s": array(delays)}
            else:
                values = {"epochs": epochs, "reasons": words, "delays_s": array(delay or 0 for delay in delays)}
                values["counted"] = array(word == "worker_stopped" for word in words)
            if not self.leases_valid():
                return  # the heartbeat drops them
            refused = await self.database.call(function, worker=WORKER, ids=ids, **values)
            locked = await self.database.call("still_leased", worker=WORKER, ids=ids, epochs=epochs) if refused else []
            for run in runs:
                if (run.id,) not in locked and self.held.get(run.id) is run:
                    del self.held[run.id]
                    self.succeeded += function == "complete" and (run.id,) not in refused
