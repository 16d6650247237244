"""What the lines of a crontab become."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.imports.import_examples import OPTIONS
from wakeboard.errors import InvalidSchedule
from wakeboard.imports.rules.crontab import MAX_LINES, MAX_SETTINGS, CrontabLine, column_of_users, read_crontab
from wakeboard.imports.rules.crontab_line import import_crontab_line

if TYPE_CHECKING:
    from wakeboard.imports.rules.imported_schedule import ImportedSchedule


def lines(text: str, *, with_users: bool = False) -> list[CrontabLine]:
    return list(read_crontab(text, with_users=with_users))


def imported(text: str, *, with_users: bool = False, **options: Any) -> ImportedSchedule:
    """The schedule of the last line."""
    line = lines(text, with_users=with_users)[-1]
    return import_crontab_line(line, replace(OPTIONS, **options), namespace=None, taken=())


def refusal(text: str) -> str:
    with pytest.raises(InvalidSchedule) as refused:
        imported(text)
    return str(refused.value)


def test_settings_apply_to_the_lines_below_them():
    found = lines('# a\n\nA = 1\n0 1 * * * one\nA=\'2\'\n"B" = "x y" \n  0 2 * * *  two  \n')
    assert [(line.number, line.command, dict(line.settings)) for line in found] == [
        (4, "one", {"A": "1"}),
        (7, "two", {"A": "2", "B": "x y"}),
    ]


@pytest.mark.parametrize(
    ("line", "schedule", "command", "stdin"),
    [
        ("0 5 * * 1 tar -zcf /b.tgz /home", "0 5 * * 1", "tar -zcf /b.tgz /home", None),
        ("0\t5  *  * mon\t/run me ", "0 5 * * mon", "/run me", None),
        ("@daily /run", "@daily", "/run", None),
        ("-*/5 * * * * /quiet", "*/5 * * * *", "/quiet", None),
        (r"0 0 * * * date +\%F", "0 0 * * *", "date +%F", None),
        ("0 0 * * * mail root%Hello%World", "0 0 * * *", "mail root", "Hello\nWorld\n"),
        (r"0 0 * * * cat%50\% off", "0 0 * * *", "cat", "50% off\n"),
        (r"0 0 * * * cat \\%a\\%b", "0 0 * * *", r"cat \\", "a\\%b\n"),
        ("@daily FOO=bar run", "@daily", "FOO=bar run", None),
    ],
)
def test_an_entry_is_read_as_cron_reads_it(line: str, schedule: str, command: str, stdin: str | None):
    (found,) = lines(line)
    assert (found.schedule, found.command, found.stdin, found.problem) == (schedule, command, stdin, "")


@pytest.mark.timeout(20)
def test_the_time_and_memory_for_hostile_settings_are_bounded():
    """A crontab that is read has up to 4 MiB."""
    (found,) = lines("A=1" + " " * 3_000_000 + "x\n0 1 * * * one")
    assert len(found.settings["A"]) == 3_000_002
    *entries, last = lines("".join(f"A{number}=1\n0 1 * * * one\n" for number in range(9_000)))
    assert len(entries) == MAX_SETTINGS
    assert last.problem == f"the crontab has more than {MAX_SETTINGS} settings; split it"


def test_a_column_for_users_is_read_on_request():
    (found,) = lines("17 * * * *  root\tcd / && run-parts /etc/cron.hourly", with_users=True)
    assert (found.user, found.command) == ("root", "cd / && run-parts /etc/cron.hourly")


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("0 5 * * * root run a\n0 6 * * * www-data\tphp x\n0 7 * * * deploy x y\n", ["root", "www-data", "deploy"]),
        ("0 5 * * * php /srv/x\n0 6 * * * mail root\n0 7 * * * operator\n", []),
    ],
)
def test_a_column_of_users_is_recognised_by_a_user_of_each_system(text: str, users: list[str]):
    assert column_of_users(lines(text)) == users


def test_a_column_of_users_is_recognised_by_a_user_of_this_machine():
    entries = list(lines("0 5 * * * deploy run x"))
    assert (column_of_users(entries, {"deploy"}), column_of_users(entries)) == (["deploy"], [])


def test_a_program_named_as_a_user_is_no_column_of_users():
    entries = list(lines("0 8 * * 1 mail -s hello ada\n0 1 * * * backup --all\n"))
    assert column_of_users(entries, {"mail", "backup"}) == []


@pytest.mark.parametrize(
    ("text", "with_users", "says"),
    [
        ("0 5 * * 1", False, "neither five fields and a command"),
        ("hello", False, "neither five fields and a command"),
        ("0 5 * * 1 root", True, "no command behind the user"),
        ("0 5 * * 1 /opt/run --all", True, "leave out --with-users"),
        ("0 0 5 * * 1 root run", True, "looks like a sixth field"),
        ("0 5 * * 1 a\0b", False, "NUL"),
        ("\n" * MAX_LINES + "0 5 * * 1 x", False, "more than 20000 lines"),
    ],
)
def test_a_line_that_is_not_understood_has_a_problem(text: str, with_users: bool, says: str):
    assert says in lines(text, with_users=with_users)[-1].problem


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("0 5 * * 7 run", {"schedule": "0 5 * * 7"}),
        ("@daily run", {"schedule": "@daily"}),
        ("CRON_TZ=Asia/Tokyo\n0 5 * * * run", {"timeZone": "Asia/Tokyo"}),
        ("RANDOM_DELAY=10\n0 5 * * * run", {"jitterSeconds": 600}),
        ("0~30 5 * * * run", {"schedule": "H(0-30) 5 * * *"}),
        ("~ 5 * * 5-7 run", {"schedule": "H 5 * * 5-7"}),
        ("0 5 * * * -n -s run", {"concurrencyPolicy": "Forbid"}),
        ("~ ~ * * * run", {"schedule": "H H * * *"}),
        ("0 0 1,15 * 1 run", {"schedule": "0 0 1,15 * 1"}),
        ("0 0 */2 * * run", {"schedule": "0 0 */2 * *"}),
        ("CRON_TZ=Europe/Lisbon\n30 1 * * * run", {"schedule": "30 1 * * *"}),
        ("CRON_TZ=Europe/Lisbon\n*/10 1 * * * run", {"dst": {"gap": "Skip", "overlap": "Both"}}),
    ],
)
def test_an_entry_becomes_a_command_that_is_tried_once(text: str, becomes: dict[str, Any]):
    spec = imported(text).spec
    assert spec == {
        "jobType": "command", "schedule": "0 5 * * *", "timeZone": spec["timeZone"], "payload": {"command": "run"},
        "maxAttempts": 1, "catchUp": {"policy": "Skip"}, "timeoutSeconds": 86_400,
        **({"schedule": "*/10 1 * * *"} if "dst" in becomes else {}), **becomes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("0 5 * * * a | b", ["/bin/sh", "-c", "a | b"]),
        ("SHELL=/bin/bash\nMAILTO=me\n0 5 * * * a", ["/bin/bash", "-c", "a"]),
        ("PATH=/x:/y\nA=1 2\n0 5 * * * a", ["/usr/bin/env", "PATH=/x:/y", "A=1 2", "/bin/sh", "-c", "a"]),
        (
            "0 5 * * * a; b%one%two",
            ["/bin/sh", "-c", "{ a; b\n} <<'END_OF_STANDARD_INPUT'\none\ntwo\nEND_OF_STANDARD_INPUT\n"],
        ),
        ("0 5 * * * awk '{print}' x", ["/bin/sh", "-c", "awk '{print}' x"]),
    ],
)
def test_the_workers_allow_exactly_this_command(text: str, argv: list[str]):
    assert imported(text).command == {"argv": argv, "literal": True}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup.sh --all", "backup"),
        ("cd /srv/app && ./manage.py clearsessions", "manage"),
        ("FOO=1 nice -n 5 /opt/Clean_Up.py", "clean-up"),
        ("[ -x /x ] && run-parts /etc/cron.daily", "run-parts"),
        ("/usr/bin/env python3 -m report", "report"),
        ("cd /srv && python manage.py clearsessions", "manage-clearsessions"),
        ("php -q /srv/cron.php --all", "cron"),
        ("§", "command"),
        ("x" * 80, "x" * 50),
    ],
)
def test_a_schedule_is_named_after_its_program(command: str, name: str):
    assert imported(f"0 5 * * * {command}").name == name


def test_names_are_never_taken_twice():
    (line,) = lines("0 5 * * * run")
    assert import_crontab_line(line, OPTIONS, namespace="ops", taken={"run", "run-2"}).full_name == "ops/run-3"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("@reboot run", "@reboot has no time"),
        ("0 0 */2 * 1 run", "cron wants both days to match"),
        ("~ 0 */2 * 1 run", "cron wants both days to match"),
        ("60 0 * * * run", 'the minute "60"'),
        ("0 0 30 2 * run", "would never run"),
        ("CRON_TZ=Mars\n0 0 * * * run", "not a known time zone"),
        ("RANDOM_DELAY=soon\n0 0 * * * run", "write 0 to 1440 minutes"),
        ("SHELL=/usr/bin/fish\n0 0 * * * cat%x", "cannot give to the shell /usr/bin/fish"),
        ("0 0 * * * cat%END_OF_STANDARD_INPUT", "contains END_OF_STANDARD_INPUT"),
    ],
)
def test_what_cannot_be_imported_has_a_reason(text: str, says: str):
    assert says in refusal(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 5 * * * run", "in the worker's container"),
        ("0 5 * * * run", "not to mail"),
        ("0 5 * * * run", "is dead, stays and waits"),
        ("0 5 * * * run", "which a crontab does not name; the JobSchedule has Etc/UTC"),
        ("0 5 * * * run", "one hour by default: it must be at least 86400."),
        ("TOKEN=x\n0 5 * * * run", "move passwords"),
        ("0 5 * * * cat%x", "standard input"),
        ("~ 5 * * * run", "H is a value that stays"),
        ("CRON_TZ=Asia/Tokyo\n0 5 * * * run", "Debian's cron passes over it"),
        ("0 5 * * * -qn run", "about its mail and its log"),
        ("0 5 * * * -s run", "while the command still runs"),
    ],
)
def test_a_change_in_meaning_is_one_sentence(text: str, says: str):
    assert says in "\n".join(imported(text).changes)


@given(st.text(alphabet="05*/-,~@% \\'\"=\n\tabTZ_\0é", max_size=60), st.booleans())
def test_any_text_is_imported_or_refused(text: str, with_users: bool):
    for line in lines(text, with_users=with_users):
        try:
            import_crontab_line(line, OPTIONS, namespace="ops", taken=())
        except InvalidSchedule:
            continue
