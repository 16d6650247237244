"""What `wakeboard plan` and `wakeboard check FILES` say of folders, revisions and the database."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.plan.conftest import FROM
from wakeboard.plan.markdown import LONGEST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli, Result
    from tests.plan.conftest import Repository

PLAN = ("plan", "main:schedules", "schedules", "--from", FROM)
LISBON = {"timeZone": "Europe/Lisbon"}  # on 2027-03-28 01:00 to 02:00 does not exist there


def changes(result: Result) -> dict[str, list[Any]]:
    keys = ("change", "gained", "lost", "moved")
    return {each["schedule"].removeprefix("shop/"): [each[key] for key in keys] for each in result.json["schedules"]}


def problems(result: Result) -> list[tuple[str, str]]:
    """Of a plan, or of `check` with --json."""
    findings: Any = result.json
    if "findings" in findings:
        findings = findings["findings"]
    return [(each["check"], each["message"]) for each in findings if each["level"] != "ok"]


def test_ticks_that_are_gained_lost_and_moved_are_counted(bare_cli: Cli, repository: Repository):
    repository.write("same", schedule="0 5 * * *")
    repository.write("later", schedule="0 8 * * *", **LISBON)
    repository.write("stopped", every="6h")
    repository.write("child", after=[{"schedule": "later"}])
    repository.write("old", schedule="0 1 * * *", payload={"a": 1})
    repository.commit()
    repository.write("later", schedule="0 9,18 * * *", **LISBON)
    repository.write("stopped", every="6h", suspend=True)
    repository.write("once", at="2027-03-02T08:00:30Z")
    repository.remove("old")
    repository.write("new", schedule="0 1 * * *", payload={"a": 1})

    result = bare_cli(*PLAN, "--json")

    assert changes(result) == {
        "later": ["changed", 30, 0, 30],
        "child": ["follows", 30, 0, 30],
        "stopped": ["changed", 0, 120, 0],
        "once": ["added", 1, 0, 0],
        "new": ["renamed", 0, 0, 0],
    }
    whole = result.json
    assert (whole["ticks_before"], whole["ticks_after"]) == (240, 181)
    assert (whole["gained"], whole["lost"], whole["moved"], whole["unchanged"]) == (61, 120, 60, 1)
    text = bare_cli(*PLAN)
    assert (
        "changed shop/later 30 -> 60 ticks 30 gained, 30 moved schedule: 0 8 * * * -> 0 9,18 * * *; first"
        in "\n".join(text.cells)
    )
    assert text.lines[-1].endswith(
        "1 added, 2 changed, 1 follows, 1 renamed; 240 -> 181 ticks, 61 gained, 120 lost, 60 moved."
    )
    assert text.code == 0
    assert bare_cli(*PLAN, "--detailed-exitcode").code == 3
    assert bare_cli("plan", "main:schedules", "HEAD:./schedules", "--detailed-exitcode").code == 0


def test_schedules_that_cannot_be_read_are_in_no_number(bare_cli: Cli, repository: Repository):
    repository.write("same", every="6h")
    repository.write("wrong", every="1h")
    repository.write("child", after=[{"schedule": "wrong"}])
    repository.commit()
    repository.write("wrong", every="hourly")

    result = bare_cli(*PLAN, "--json")

    whole = result.json
    assert (whole["ticks_before"], whole["ticks_after"], whole["gained"], whole["lost"]) == (120, 120, 0, 0)
    assert (whole["unchanged"], whole["not_compared"], whole["schedules"], result.code) == (1, 2, [], 1)
    said = "no other schedule differs, 2 not compared; 120 ticks, no tick changes"
    assert bare_cli(*PLAN).lines[-1].endswith(f": {said}.")
    comment = bare_cli(*PLAN, "-o", "markdown").lines
    assert comment[0] == f"### Plan: {said}"
    (failed,) = [line for line in comment if "**files**" in line]
    assert failed.endswith(" → Nothing of it can be applied until then.")


def test_a_change_of_after_shows_the_entries_that_differ(bare_cli: Cli, repository: Repository):
    repository.write("parents", *({"name": f"transform-{each}", "every": "6h"} for each in "abc"))
    repository.write("child", after=[{"schedule": "transform-a"}, {"schedule": "transform-b"}])
    repository.commit()
    ended = {"schedule": "transform-b", "outcome": "Ended"}
    repository.write("child", after=[{"schedule": "transform-a"}, ended, {"schedule": "transform-c"}])

    expected = (
        "after: - transform-b outcome=Succeeded ticks=Same, + transform-b outcome=Ended ticks=Same,"
        " + transform-c outcome=Succeeded ticks=Same"
    )
    assert expected in "\n".join(bare_cli(*PLAN).cells)
    assert expected in bare_cli(*PLAN, "-o", "markdown").out


def test_a_file_that_is_no_yaml_removes_no_schedule(bare_cli: Cli, repository: Repository):
    repository.write("same", every="6h")
    repository.write("broken", every="1h")
    repository.write("child", after=[{"schedule": "broken"}])
    repository.commit()
    (repository.folder / "schedules" / "broken.yaml").write_text("spec: [\n")

    result = bare_cli(*PLAN, "--json")

    assert (changes(result), result.json["lost"], result.code) == ({}, 0, 1)
    assert [check for check, _ in problems(result)] == ["files"]


def test_each_kind_of_mistake_is_a_finding_and_old_ones_are_not(bare_cli: Cli, repository: Repository):
    old = {"schedule": "0 3 * * *", "payload": {"password": "known"}, "limitKey": "api"}
    repository.write("old", **old)
    repository.write("parent", schedule="0 4 * * *")
    repository.write("other", schedule="0 6 * * *")
    repository.write("child", after=[{"schedule": "parent"}])
    repository.write("lost", after=[{"schedule": "never-there"}])
    repository.write("renamed", schedule="H 1 * * *")
    repository.commit()
    repository.remove("parent")
    repository.remove("renamed")
    repository.write("new-name", schedule="H 1 * * *")
    repository.write("apart", after=[{"schedule": "old"}, {"schedule": "other"}])
    repository.write("loop", {"name": "a", "after": [{"schedule": "b"}]}, {"name": "b", "after": [{"schedule": "a"}]})
    repository.write("secret", schedule="0 7 * * *", payload={"headers": {"Authorization": "Bearer abcdefgh"}, "n": 1})
    repository.write("skips", schedule="30 1 * * *", dst={"gap": "Skip"}, **LISBON)
    repository.write("moves", schedule="30 1 * * *", **LISBON)
    repository.write("limited", schedule="0 3 * * *", limitKey="api")
    repository.write("wrong", schedule="0 25 * * *")
    repository.write("http", schedule="0 8 * * *", jobType="http", payload={"uri": "https://x"})
    repository.write("full", *({"name": f"full-{each}", "schedule": "17 2 * * *"} for each in range(12)))

    result = bare_cli(*PLAN, "--json")

    found = problems(result)
    assert [check for check, _ in found] == [
        *("files", "files", "after", "after", "after", "after", "names", "secrets", "clock changes", "pile-ups"),
        "limits",
    ]
    text = "\n".join(message for _, message in found)
    for expected in (
        r"schedules/http\.yaml:\d+: .* job type http: its payload has no field 'uri'",
        r"schedules/wrong\.yaml:\d+: .*hour",
        r"shop/a waits for itself: shop/b runs after it\.",
        r"shop/child runs after shop/parent, which goes\.",
        r"shop/apart does not run in this period: shop/old, shop/other have no tick in common\.",
        r"shop/renamed goes and shop/new-name comes with the same content",
        r"shop/secret: spec\.payload\.headers\.Authorization looks like a secret",
        r"shop/skips in Europe/Lisbon: skips 01:30, which does not exist on 2027-03-28\.",
        r"02:17 UTC has up to 12 ticks on 30 days, first 2027-03-01 02:17 \(0 before\)\.",
        r"The limit api lets 1 run start in a minute, and 2 are due at 2027-03-01 03:00 UTC \(1 before\)",
    ):
        assert re.search(expected, text), expected
    assert not re.search("known|abcdefgh", bare_cli(*PLAN).out + bare_cli(*PLAN, "-o", "markdown").out)
    assert result.code == 1
    (moves,) = [each for each in result.json["schedules"] if each["schedule"] == "shop/moves"]
    assert moves["clock_changes"][0] == "runs at 02:00 for 01:30, which does not exist on 2027-03-28"
    checked = problems(bare_cli("check", "schedules", "--json"))
    assert ("secrets", "shop/old: spec.payload.password looks like a secret in clear text.") in checked
    assert ("after", "shop/lost runs after shop/never-there, which does not exist.") in checked


def test_markdown_has_at_most_what_github_accepts_and_no_mentions(bare_cli: Cli, repository: Repository):
    before = [{"name": f"job-{each:059}", "schedule": f"{each % 60} 3 * * *"} for each in range(240)]
    repository.write("many", *before)
    repository.commit()
    bad = {"payload": {f"@ann #12 <b>|`token{each}": "secret" for each in range(110)}}
    repository.write("many", *(each | {"schedule": "@daily"} for each in before), {"name": "bad", **bad})

    text = bare_cli(*PLAN, "-o", "markdown").out

    assert LONGEST / 2 < len(text) <= LONGEST
    assert "more schedules; `wakeboard plan` lists them all." in text
    assert "And 10 more." in text
    assert not re.search(r"@\w|(?<!^###) #\w|<b>|[^\\\\]`token", text)


def test_a_source_in_the_database_is_compared_like_a_folder(cli: Cli, repository: Repository):
    repository.write("full", schedule="0 3 * * *", payload={"a": 1.5}, dst={"gap": "Skip"}, jitterSeconds=5, **LISBON)
    repository.write("bounded", every="90m", startsAt="2027-01-01T00:00:00Z", limitKey="api")
    repository.write("child", after=[{"schedule": "full", "outcome": "Ended"}], catchUp={"policy": "All", "limit": 3})
    repository.limits(api={"rate": "5/minute"})
    cli("apply", "schedules")
    repository.commit()
    stored = ("plan", "--source", "file:schedules", "schedules", "--from", FROM, "--json")
    assert cli(*stored, "--detailed-exitcode").code == 0

    unknown = cli("plan", "--source", "file:schedulez", "schedules")
    assert (unknown.code, "has no schedules of the source file:schedulez" in unknown.err) == (2, True)

    repository.write("bounded", every="2h", startsAt="2027-01-01T00:00:00Z", limitKey="api")
    repository.remove("child")

    from_folder, from_database = cli(*PLAN, "--json").json, cli(*stored).json
    assert from_database == from_folder | {"before": "file:schedules"}
    assert len(from_folder["schedules"]) == 2


def test_what_cannot_be_read_is_said_in_a_sentence(bare_cli: Cli, repository: Repository):
    repository.write("one", schedule="0 3 * * *")
    schedules = repository.folder / "schedules"
    (schedules / "link.yaml").symlink_to("../elsewhere/two.yml")
    (schedules / "away.yaml").symlink_to("/dev/zero")
    (schedules / "loop.yaml").symlink_to("loop.yaml")
    (schedules / ".hidden.yaml").write_text("kind: JobSchedule")
    (schedules / "a\nb.yaml").write_text("# empty")
    (schedules / "large.yaml").write_text("# " + "x" * (5 << 20))
    (repository.folder / "elsewhere").mkdir()
    (schedules / "one.yaml").rename(repository.folder / "elsewhere" / "two.yml")
    (repository.folder / "empty").mkdir()
    repository.commit()

    found = problems(bare_cli(*PLAN, "--json"))

    files = [message for check, message in found if check == "files"]
    assert [re.sub(":.*", "", each.removeprefix("main:")) for each in files] == [
        *(f"schedules/{name}.yaml" for name in ("away", "large", "loop")),
    ] * 2
    assert not changes(bare_cli(*PLAN, "--json")), "both follow the link to two.yml"
    assert not changes(bare_cli("plan", "main:elsewhere/two.yml", "elsewhere/two.yml", "--json")), "a single file"
    for words, expected in (
        (("mian:schedules", "schedules"), "'mian' is no revision of this repository; did you mean main?"),
        (("--", "--all:x", "schedules"), "'--all' is no revision of this repository"),
        (("main:schedulez", "schedules"), "main has no path 'schedulez'. Write the path from the top"),
        (("main:../..", "schedules"), "leads out of the repository"),
        (("main:schedules", "empty"), "empty declares nothing: it has no YAML file with a JobSchedule"),
        (("main:schedules", "nowhere"), "there is no folder 'nowhere'; of a Git revision write REVISION:PATH"),
        (("main:schedules", "empty", "--allow-empty", "--context", "a"), "of a cluster: add --cluster."),
        (("--allow-empty", "main:nowhere", "empty"), "main:nowhere and empty declare nothing"),
        (("--allow-empty", "mian:schedules", "schedules"), "'mian' is no revision of this repository"),
        (("--cluster", "main:schedules", "schedules"), "write only AFTER with --source or --cluster."),
        (("--cluster", "--source", "file:x", "schedules"), "--source and --cluster exclude each other"),
        (("--cluster", "-n", "a b", "schedules"), "--namespace 'a b' is not a namespace"),
        (("schedules",), "1 state is given; write BEFORE and AFTER"),
        (("schedules", "schedules", "--from", "1850-01-01"), "write a time from 1972"),
    ):
        result = bare_cli("plan", *words)
        assert (result.code, expected in result.err) == (2, True), (words, result.err)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("x.YAML", "kind: JobSchedule"),
        ("x.json", "{}"),
        ("x.yaml", "- kind: JobSchedule"),
        ("x.yaml", "metadata: {name: x}"),
    ],
)
def test_a_check_of_files_that_declare_nothing_is_refused(bare_cli: Cli, tmp_path: Path, file: str, text: str):
    (tmp_path / "schedules").mkdir()
    (tmp_path / "schedules" / file).write_text(text)
    result = bare_cli("check", "schedules")
    assert (result.code, "nothing is declared in schedules" in result.err) == (2, True)
    (tmp_path / "schedules" / "alerts.yaml").write_text(
        "apiVersion: wakeboard.dev/v1alpha1\nkind: AlertRules\nrules: []"
    )
    assert bare_cli("check", "schedules").code != 2


@pytest.mark.timeout(30)
def test_a_clone_without_a_files_content_does_not_hang(bare_cli: Cli, repository: Repository):
    repository.write("one", schedule="0 3 * * *")
    repository.commit()
    for blob in (repository.folder / ".git" / "objects").glob("*/*"):
        if b"jobType" in zlib.decompress(blob.read_bytes()):
            blob.unlink()

    assert "lacks the content of the file" in str(problems(bare_cli(*PLAN, "--json")))


def test_outside_of_a_repository_a_revision_is_refused(bare_cli: Cli):
    result = bare_cli("plan", "main:x", "main:x")
    assert (result.code, "reads no repository in the current folder (not a git repository" in result.err) == (2, True)
