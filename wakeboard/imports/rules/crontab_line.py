"""Maps a line of a crontab to a JobSchedule of the job type `command`, and to the command that workers must allow.

The command runs as `SHELL -c "…"`, as under cron. It is part of the workers' settings, not of the payload: users who
may write schedules can start it and cannot change it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from wakeboard.errors import InvalidSchedule
from wakeboard.imports.rules.crontab_schedule import parse_crontab_schedule
from wakeboard.imports.rules.imported_schedule import ImportedSchedule, Mapped, clock_changes_matter, equal_expression
from wakeboard.imports.rules.options import POOL_TIMEOUT_S
from wakeboard.text.sanitize import json_text
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.zones import known_zones, unknown_zone

if TYPE_CHECKING:
    from collections.abc import Collection

    from wakeboard.imports.rules.crontab import CrontabLine
    from wakeboard.imports.rules.options import ImportOptions

_SHELLS: Final = frozenset({"ash", "bash", "dash", "ksh", "mksh", "sh", "zsh"})
_SHELL: Final = "/bin/sh"
_LONGEST_NAME: Final = 50  # characters, without a number behind it
_OF_CRON: Final = frozenset({"SHELL", "MAILTO", "MAILFROM", "CRON_TZ", "RANDOM_DELAY", "CONTENT_TYPE"})
_RANDOM: Final = re.compile(r"([0-9]*)~([0-9]*)")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=\S*")
_SUFFIX: Final = re.compile(r"\.(sh|bash|py|pl|rb|php)$")
_NOT_RUN: Final = frozenset({"cd", "test", "[", "set", "export", "umask", "sleep", ".", "source"})
_PREFIXES: Final = frozenset({"env", "exec", "ionice", "nice", "nohup", "sudo", "timeout", "flock", "sh", "bash"})
_INTERPRETERS: Final = re.compile(r"(?:python|perl|php|ruby|node)[0-9.]*")  # the script and its subcommand say more
_END_OF_INPUT: Final = "END_OF_STANDARD_INPUT"

_WORKER = (
    "The command runs in the worker's container, as its user and with its environment; cron's HOME, LOGNAME, "
    "PATH=/usr/bin:/bin and working folder do not apply."
)
_USER = "The user column does not apply: a worker runs every command as its own user."
_VARIABLES = (
    "The variables of the crontab became a part of the command; move passwords among them to a Secret of the workers."
)
_MAIL = "Output goes to the run (the last 8,000 characters), not to mail; an alert rule can say that a command failed."
_DEAD = "A command that fails is not repeated, as under cron; its run is dead, stays and waits for a user."
_NO_TIMEOUT = (
    "Under cron a command may run for ever; the JobSchedule stops it after {timeout} seconds, and --timeout sets "
    "another limit."
)
_LONG_TIMEOUT = (
    "A pool claims only runs with a timeout up to its maxTimeoutSeconds (WAKEBOARD_MAX_TIMEOUT_SECONDS), one hour by "
    "default: it must be at least {timeout}."
)
_MISSED = "Ticks that are missed by more than five minutes do not run, as under cron, and are recorded as skipped."
_NO_ZONE = (
    "cron ticks in the zone of its machine, which a crontab does not name; the JobSchedule has {zone}, and "
    "--default-zone sets another."
)
_STDIN = "The text behind % is the command's standard input; it became a part of the shell's script."
_JITTER = "RANDOM_DELAY is chosen once when cron starts; jitterSeconds is chosen for each run."
_HASHED = "cronie chooses the value of ~ when it loads the crontab; H is a value that stays with the schedule's name."
_CRON_TZ = "CRON_TZ is of cronie; Debian's cron passes over it and ticks in the zone of its machine."
_ONE_AT_A_TIME = "A tick while the command still runs (the flag -s of OpenBSD's cron) is skipped and recorded."
_QUIET = "The flags -n and -q of OpenBSD's cron are about its mail and its log, and do not apply."
_DST = "The minute or the hour begins with *, so cron follows real time when the clock changes; `dst` keeps that."


def import_crontab_line(
    line: CrontabLine, options: ImportOptions, *, namespace: str | None, taken: Collection[str]
) -> ImportedSchedule:
    """The JobSchedule of an entry. Its name comes from the command, and is none of `taken`.

    Raises InvalidSchedule with a sentence for each reason why it cannot be imported.
    """
    if line.problem:
        raise InvalidSchedule(line.problem)
    zone = line.settings.get("CRON_TZ") or options.default_zone
    if zone not in known_zones():
        raise InvalidSchedule(unknown_zone(f'CRON_TZ "{zone[:64]}"'))
    name = _free_name(_name_of(line.command), taken)
    schedule, fixed = _with_random_values(line.schedule)
    hashed = fixed != line.schedule
    timeout = options.timeout_s
    spec: dict[str, Any] = {
        "jobType": "command",
        "schedule": schedule,
        "timeZone": zone,
        "payload": {"command": name},
        "maxAttempts": 1,
        "catchUp": {"policy": "Skip"},
        "timeoutSeconds": timeout,
    }
    fields = parse_cron(schedule, name=f"{namespace or 'default'}/{name}")
    changes = [_WORKER, _MAIL, _DEAD, _MISSED, _NO_TIMEOUT.format(timeout=timeout)]
    changes += [_LONG_TIMEOUT.format(timeout=timeout)] if timeout > POOL_TIMEOUT_S else []
    changes += [_USER] if line.user else []
    changes += [_CRON_TZ] if "CRON_TZ" in line.settings else [_NO_ZONE.format(zone=zone)]
    changes += [_VARIABLES] if line.settings.keys() - _OF_CRON - {"PATH"} else []
    changes += [_STDIN] if line.stdin is not None else []
    changes += [_HASHED] if hashed else []
    if "s" in line.flags:
        spec["concurrencyPolicy"] = "Forbid"
        changes.append(_ONE_AT_A_TIME)
    changes += [_QUIET] if set(line.flags) - {"s"} else []
    if _follows_real_time(line.schedule) and clock_changes_matter(fields, zone, options.now, "Skip", "Both"):
        spec["dst"] = {"gap": "Skip", "overlap": "Both"}
        changes.append(_DST)
    if delay := line.settings.get("RANDOM_DELAY"):
        spec["jitterSeconds"] = _minutes(delay) * 60
        changes.append(_JITTER)
    spec |= {"queue": options.queue} if options.queue else {}
    spec |= {"suspend": True} if options.suspended else {}
    return ImportedSchedule(
        namespace=namespace,
        name=name,
        spec=spec,
        maps=(
            Mapped(source=line.schedule, target=f"schedule: {json_text(schedule)}"),
            Mapped(source="CRON_TZ" if "CRON_TZ" in line.settings else "", target=f"timeZone: {zone}"),
            *([Mapped(source="-s", target="concurrencyPolicy: Forbid")] if "s" in line.flags else []),
            Mapped(source="the command", target=f"payload: {{command: {name}}}"),
        ),
        changes=tuple(changes),
        cron=None if hashed else parse_crontab_schedule(line.schedule),
        zone=zone,
        command={"argv": _argv(line), "literal": True},
    ).checked()


def _equal(written: str) -> str:
    """The expression of a JobSchedule that is due at the same minutes."""
    if written == "@reboot":
        raise InvalidSchedule("@reboot has no time, and a JobSchedule is due by the clock; start it with the machine")
    cron = parse_crontab_schedule(written)
    try:
        return equal_expression(written, cron)
    except InvalidSchedule as error:
        if not cron.both_days or "*" in {written.split()[2], written.split()[4]}:
            raise
        raise InvalidSchedule(
            f'schedule "{written[:100]}": a day field begins with *, so that cron wants both days to match; in a '
            "JobSchedule either is enough, so test one of them in the command"
        ) from error


def _with_random_values(written: str) -> tuple[str, str]:
    """The expression of a JobSchedule with each random value of cronie (`~`, `0~30`) as H, and with fixed values."""
    fields = written.split()
    found = [_RANDOM.fullmatch(field) for field in fields]
    if not any(found):
        return _equal(written), written
    bounds = list(zip(fields, found, (0, 0, 1, 1, 0), (59, 23, 28, 12, 6), strict=False))
    fixed = " ".join(str(match[1] or low) if match else field for field, match, low, _ in bounds)
    equal = _equal(fixed).split()
    return " ".join(
        own if match is None else "H" if not (match[1] or match[2]) else f"H({match[1] or low}-{match[2] or high})"
        for own, (_, match, low, high) in zip(equal, bounds, strict=True)
    ), fixed


def _follows_real_time(written: str) -> bool:
    """Cron's rule: whether the minute or the hour begins with a star."""
    fields = written.split()
    return len(fields) > 1 and (fields[0].startswith("*") or fields[1].startswith("*"))


def _minutes(delay: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", delay) or int(delay) > 1440:  # noqa: PLR2004 - minutes of a day
        raise InvalidSchedule(f'RANDOM_DELAY is "{delay[:40]}"; write 0 to 1440 minutes')
    return int(delay)


def _argv(line: CrontabLine) -> list[str]:
    shell = line.settings.get("SHELL") or _SHELL
    variables = [f"{name}={value}" for name, value in line.settings.items() if name not in _OF_CRON]
    return [*(["/usr/bin/env", *variables] if variables else []), shell, "-c", _script(line, shell)]


def _script(line: CrontabLine, shell: str) -> str:
    """The command, with its standard input as a here-document."""
    if line.stdin is None:
        return line.command
    if shell.rpartition("/")[2] not in _SHELLS:
        raise InvalidSchedule(
            f"the text behind % is standard input, which import cannot give to the shell {shell[:80]}"
        )
    if _END_OF_INPUT in line.stdin:
        raise InvalidSchedule(f"its standard input contains {_END_OF_INPUT}, with which import ends it")
    return f"{{ {line.command}\n}} <<'{_END_OF_INPUT}'\n{line.stdin}{_END_OF_INPUT}\n"


def _name_of(command: str) -> str:
    """A name from the first program of a command: "backup" for "cd /srv && ./backup.sh --all"."""
    for part in re.split(r"&&|\|\||[;|]", command):
        words = [word.strip("(){}'\"") for word in part.split() if not _ASSIGNMENT.fullmatch(word)]
        programs = [name for word in words if (name := _SUFFIX.sub("", word.rpartition("/")[2]))]
        if not programs or programs[0] in _NOT_RUN:
            continue
        while programs[0] in _PREFIXES and (behind := [name for name in programs[1:] if name[0].isalpha()]):
            programs = behind
        words = [name for name in programs[1:] if name[0].isalpha()] if _INTERPRETERS.fullmatch(programs[0]) else []
        if slug := _slug("-".join(words[:2])) or _slug(programs[0]):
            return slug
    return "command"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LONGEST_NAME].strip("-")


def _free_name(name: str, taken: Collection[str]) -> str:
    if name not in taken:
        return name
    return next(candidate for number in range(2, len(taken) + 3) if (candidate := f"{name}-{number}") not in taken)
