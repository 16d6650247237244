"""Faults that are planted into copies of the TypeScript and the Python worker, by replacements in their source."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault, the one scenario that must find it, and a part of what that scenario says.

    `edits`: a text that occurs once in `file`, which is written without its ending, and its replacement.
    """

    name: str
    scenario: str
    found: str
    edits: dict[str, str]
    file: str = "worker"

    def planted(self, source: str) -> str:
        """The source with the fault."""
        for text, replacement in self.edits.items():
            assert source.count(text) == 1, f"{self.name}: {text!r} must occur once in {self.file}"
            source = source.replace(text, replacement)
        return source


FAULTS = (
    Fault(
        "a registration that fails stops the claims",
        "refused-registration",
        "did not succeed",
        {
            "this.registeredAt = clock();": "",
            "[this.id, ...about]);": "[this.id, ...about]);\nthis.registeredAt = clock();",
            "await this.registerAgain()": "await this.register()",
        },
    ),
    Fault(
        "no heartbeat",
        "heartbeat",
        "its lease expired while the handler ran",
        {"await this.renew()": "await Promise.resolve(true)"},
    ),
    Fault(
        "the heartbeat pauses while no run is in flight",
        "lost-claim",
        "the lost claim counts as 1 crash",
        {"const leases = [...": "if (!this.held.size) return (this.validUntil = 1e9) > 0;\nconst leases = [..."},
    ),
    Fault(
        "the epoch of the claim is not sent",
        "retry",
        "the run did not succeed",
        {"complete($1, $2, $3,": "complete($1, $2, array[cardinality($3::bigint[])]::bigint[],"},
    ),
    Fault(
        "a completion is sent after the lease has expired",
        "outage",
        "accepted after the lease had expired",
        {"leasesValid = () => clock() < this.validUntil": "leasesValid = () => true"},
    ),
    Fault(
        "a lost lease does not stop its handler",
        "lost-lease",
        "did not note 'stopped'",
        {
            "if (older && !older.outcome) this.lose(older);": "",
            'if (answer === "refused" && !attempt.outcome) this.lose(attempt);': "",  # whichever the worker hears first
        },
    ),
    Fault(
        "a lease counts from the reply, by the worker's own clock",
        "late-claim",
        "the handler was started although its lease had expired",
        {
            "const sent = clock();\n    const { leaseSeconds": "const { leaseSeconds",
            "clock() - sent <= ": "0 <= ",
            '"claims", 1,': '"claims", 5,',
        },
    ),
    Fault(
        "a cancellation is ignored",
        "cancel",
        "did not note 'stopped'",
        {'if (answer === "cancel") this.stopAttempt(attempt, "cancelled");': ""},
    ),
    Fault(
        "SIGTERM is ignored",
        "sigterm",
        "the worker had not ended",
        {"const onSignal = () => this.stop();": "const onSignal = () => {};"},
    ),
    Fault(
        "a heartbeat makes a run lost whose report is not answered yet",
        "stalled-completion",
        "successes; it executed 15 runs",
        {'answer === "refused" && !attempt.outcome': 'answer === "refused"'},
    ),
    Fault(
        "a report that was not answered is not repeated",
        "lost-request",
        "a run was executed again",
        {"await this.persist(() => this.send(group), ": "await this.send(group).catch(() => undefined, "},
    ),
    Fault(
        "the state of a fetch is not passed back",
        "foreign-types",
        "did not succeed",
        {"this.state = answer.state;": ""},
    ),
    Fault(
        "it never says that it runs nothing",
        "poison",
        "was not executed a third time, alone",
        {"this.held.size === 0, pollSeconds": "false, pollSeconds"},
    ),
    Fault(
        "steps are remembered by the id of their run",
        "forgetful-server",
        "the step was executed 0 times",
        {
            "if (known!.done) return known!.stored;": "if (known!.done || past[this.id]) return past[this.id];",
            "return JSON.parse(text);": "return (past[this.id] = JSON.parse(text));",
            "/** A row of the SQL type": "const past: any = {};\n/** A row of the SQL type",
        },
        "run",
    ),
    Fault(
        "a completion has the epoch of the newest lease of its run",
        "forgotten-completion",
        "the run has the result",
        {
            "group.map(({ row }) => row.lease_epoch)]": (
                "group.map(({ row }) => (this.held.get(row.id)?.row ?? row).lease_epoch)]"
            )
        },
    ),
    Fault(
        "an effect that another run executes is executed, too",
        "effects-forever",
        "did not snooze",
        {"if (known!.holder !== null)": "if (false)"},
        "run",
    ),
    Fault(
        "credentials in a log are stored",
        "logs",
        "the lines are stored as",
        {"readable(hide(text, log.secrets), MAX_LINE)]": "text.slice(0, MAX_LINE)]"},
        file="run_logs",
    ),
    Fault(
        "secrets of the payload in a log are stored",
        "logs",
        "a value of the payload under",
        {"hide(text, log.secrets)": "text"},
        file="run_logs",
    ),
    Fault(
        "the order of the lines of a log is lost",
        "logs",
        "the lines are stored as",
        {"Buffer.from(JSON.stringify(rows))": "Buffer.from(JSON.stringify(rows.reverse()))"},
        file="run_logs",
    ),
    Fault(
        "a log does not say how its attempt failed",
        "logs",
        "line 5 of run",
        {"this.add(log, cancelled ?": "if (cancelled) this.add(log, cancelled ?"},
        file="run_logs",
    ),
    Fault(
        "a log is not bounded",
        "long-logs",
        "characters of an attempt are kept",
        {"while (log.tailSize > this.lastQuarters": "while (false", "log.lastSize > this.lastQuarters": "false"},
        file="run_logs",
    ),
    Fault(
        "each line of a log counts as 200 characters more",
        "long-logs",
        "characters of an attempt are kept",
        {
            "log.lastSize += line.text.length + 1": "log.lastSize += cost",
            "log.lastSize -= text.length + 1": "log.lastSize -= text.length + LINE_COST",
        },
        file="run_logs",
    ),
)
PYTHON_FAULTS = (
    Fault(
        "credentials in a short log are stored",
        "logs",
        "the lines are stored as",
        {"lines if is_masked else": "lines if True else"},
        file="run_logs",
    ),
    Fault(
        "a log does not say how its attempt failed",
        "logs",
        "line 5 of run",
        {
            "attempt.context.logs.add(attempt, ERROR if": "str((attempt, ERROR if",
            "else level, OUTCOME, text)": "else 0))",
        },
        file="in_flight",
    ),
    Fault(
        "a log is not bounded",
        "long-logs",
        "characters of an attempt are kept",
        {"while kept.last and (kept.last_size > ": "while False and (0 > ", "while kept.tail_size > ": "while 0 > "},
        file="run_logs",
    ),
)
