"""Loading JobSchedules from a folder of YAML files, and the problems that are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.accounts import as_ordinary_user
from wakeboard.errors import WakeboardError
from wakeboard.manifests import load_folder

if TYPE_CHECKING:
    from pathlib import Path


def manifest(name: str, *lines: str, namespace: str | None = None) -> str:
    """A JobSchedule with these lines in its spec."""
    place = f"{{name: {name}, namespace: {namespace}}}" if namespace else f"{{name: {name}}}"
    spec = "\n".join(f"  {line}" for line in ("jobType: ping", *lines))
    return f"apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nmetadata: {place}\nspec:\n{spec}\n"


def write(folder: Path, name: str, text: str | bytes) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def names(folder: Path) -> list[str]:
    return [schedule.full_name for schedule in load_folder(folder).schedules]


def only_problem(folder: Path) -> str:
    """The only problem, without the folder's path."""
    (problem,) = load_folder(folder).problems
    return problem.replace(f"{folder}/", "")


def test_all_yaml_files_below_a_folder_are_read_in_order(tmp_path: Path):
    write(tmp_path, "b.yml", manifest("b"))
    write(tmp_path, "a/deep/er.yaml", manifest("a"))
    write(tmp_path, "c.yaml", manifest("c1", namespace="billing") + "---\n" + manifest("c2"))
    write(tmp_path, "notes.txt", "not: [yaml")
    assert names(tmp_path) == ["default/b", "billing/c1", "default/c2", "default/a"]
    assert load_folder(tmp_path).complete


def test_load_folder_accepts_a_single_file(tmp_path: Path):
    assert names(write(tmp_path, "a.yaml", manifest("a"))) == ["default/a"]


def test_hidden_files_and_folders_are_ignored(tmp_path: Path):
    write(tmp_path, ".wakeboard/x.yaml", manifest("x"))
    write(tmp_path, ".hidden.yaml", "broken: [")
    write(tmp_path, "..data/y.yaml", manifest("y"))
    found = load_folder(tmp_path)
    assert (found.schedules, found.problems, found.notes) == ((), (), ())


def test_a_folder_mounted_from_a_config_map_is_read_once(tmp_path: Path):
    write(tmp_path, "..2026_01_01/a.yaml", manifest("a"))
    (tmp_path / "..data").symlink_to("..2026_01_01")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert names(tmp_path) == ["default/a"]


def test_the_items_of_a_list_are_loaded(tmp_path: Path):
    items = "".join("- " + manifest(name).rstrip("\n").replace("\n", "\n  ") + "\n" for name in ("one", "two"))
    write(tmp_path, "list.yaml", f"apiVersion: v1\nkind: List\nitems:\n{items}")
    assert names(tmp_path) == ["default/one", "default/two"]


def test_empty_documents_and_files_declare_nothing(tmp_path: Path):
    write(tmp_path, "empty.yaml", "")
    write(tmp_path, "comment.yaml", "# nothing yet\n")
    write(tmp_path, "many.yaml", "---\n---\n" + manifest("a") + "---\n")
    found = load_folder(tmp_path)
    assert [schedule.full_name for schedule in found.schedules] == ["default/a"]
    assert not found.problems
    assert not found.notes


def test_other_files_are_passed_over_and_a_forgotten_kind_is_named(tmp_path: Path):
    write(tmp_path, "ci.yaml", "on: push\non: again\n")
    write(tmp_path, "values.yaml", "pools: {}\n")
    write(tmp_path, "list.yaml", "- a\n")
    write(tmp_path, "forgotten.yaml", "metadata: {name: a}\nspec: {jobType: ping}\n")
    write(tmp_path, "k8s.yaml", "apiVersion: v1\nkind: ConfigMap\ndata: {a: !secret 1}\n---\n" + manifest("a"))
    found = load_folder(tmp_path)
    assert [schedule.full_name for schedule in found.schedules] == ["default/a"]
    assert not found.problems
    assert found.notes == (f"{tmp_path}/forgotten.yaml:1: ignored: it has a spec and no kind; write kind: JobSchedule",)


def test_byte_order_marks_and_windows_line_ends_are_accepted(tmp_path: Path):
    write(tmp_path, "a.yaml", b"\xef\xbb\xbf" + manifest("a").replace("\n", "\r\n").encode())
    assert names(tmp_path) == ["default/a"]


def test_a_problem_hides_no_valid_schedule(tmp_path: Path):
    write(tmp_path, "a.yaml", manifest("bad", "priority: 9") + "---\n" + manifest("good"))
    write(tmp_path, "b.yaml", manifest("before") + "---\nbroken: [\n---\n" + manifest("unseen"))
    found = load_folder(tmp_path)
    assert [schedule.full_name for schedule in found.schedules] == ["default/good", "default/before"]
    assert len(found.problems) == 2


def test_a_problem_names_file_and_line_field_and_value(tmp_path: Path):
    write(tmp_path, "a.yaml", manifest("good") + "---\n" + manifest("bad", "priority: 9"))
    problem = only_problem(tmp_path)
    assert problem.startswith("a.yaml:12: ")  # its own line, not where the document begins
    assert "priority" in problem
    assert "9" in problem


@pytest.mark.parametrize(
    ("lines", "line", "field"),
    [
        (["priority: 3", "timeZone: Mars"], 7, "spec.timeZone"),
        (["priority: 3", "time_zone: Mars"], 7, "spec.time_zone"),
        (["backoff:", "  strategy: Exponential", "  baseSeconds: 0"], 8, "spec.backoff.baseSeconds"),
        (["backoff:", "    baseSeconds:", "      0"], 7, "spec.backoff.baseSeconds"),
        (["schedule: 0 8 * * MON", "schedul: x"], 7, "spec.schedul"),
        (["schedule: 61 * * * *"], 6, "spec.schedule"),
        (["payload:", "  big: 9007199254740993"], 6, "spec.payload"),
    ],
)
def test_a_problem_names_the_line_of_its_field(tmp_path: Path, lines: list[str], line: int, field: str):
    write(tmp_path, "a.yaml", manifest("bad", *lines))

    assert only_problem(tmp_path).startswith(f"a.yaml:{line}: {field}")


def test_a_missing_field_is_reported_at_the_line_of_its_parent(tmp_path: Path):
    write(tmp_path, "a.yaml", "apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nmetadata: {name: x}\nspec: {}\n")

    assert only_problem(tmp_path).startswith("a.yaml:4: spec.jobType is missing")


def test_an_invalid_schedule_is_listed_and_not_pruned(tmp_path: Path):
    write(tmp_path, "a.yaml", manifest("bad", "priority: 9", namespace="billing"))
    found = load_folder(tmp_path)
    assert found.invalid == {("billing", "bad")}
    assert found.complete


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("broken: [", id="no YAML"),
        pytest.param("apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nspec: {jobType: ping}\n", id="no name"),
        pytest.param(b"a: \xff\xfe", id="no UTF-8"),
    ],
)
def test_a_folder_with_an_unreadable_part_is_not_complete(tmp_path: Path, text: str | bytes):
    write(tmp_path, "a.yaml", text)
    assert not load_folder(tmp_path).complete


def test_a_duplicate_name_invalidates_both_schedules_and_names_both_places(tmp_path: Path):
    write(tmp_path, "a.yaml", manifest("twin", "priority: 1"))
    write(tmp_path, "b.yaml", manifest("other") + "---\n" + manifest("twin", "priority: 5"))
    found = load_folder(tmp_path)
    assert [schedule.full_name for schedule in found.schedules] == ["default/other"]
    assert found.invalid == {("default", "twin")}
    assert [problem.replace(f"{tmp_path}/", "") for problem in found.problems] == [
        "b.yaml:7: default/twin is also declared in a.yaml:1; both are ignored until one of them is renamed"
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("schedule: * * * * *", '6: quote a value that begins with *, for example schedule: "*/5 * * * *"'),
        ("schedule: */5 * * * *", '6: quote a value that begins with *, for example schedule: "*/5 * * * *"'),
        ("schedule: *daily", '6: quote a value that begins with *, for example schedule: "*/5 * * * *"'),
        ("schedule: @daily", '6: quote a value that begins with @, for example schedule: "@daily"'),
        ("\tqueue: default", "6: this line is indented with a tab; use spaces"),
        ("queue: a: b", '6: quote a value that contains ": "; if there is none, correct the indentation of this line'),
        ("queue: [a", "this is not YAML: did not find expected ',' or ']'"),
        ("queue: a\n  queue: b", "7: queue is also set in line 6; remove one of them"),
        ("payload: {on: 1}", '6: the key on is not text in YAML; quote it: "on"'),
        ("payload: {8: 1}", '6: the key 8 is not text in YAML; quote it: "8"'),
        ("payload: {{ x }}", "6: a key must be text; quote a value that begins with { or ["),
        ("payload: {a: !vault x}", "6: '!vault' is not supported in a JobSchedule; write plain YAML"),
        ("payload: &a {again: *a}", "its aliases expand to more than a schedule can hold; write it without aliases"),
        ("payload: {day: 2026-01-01}", "2026-01-01"),
        ("queue: \x07", "6: this is not YAML: it contains a control character; remove it"),
        ("jobtype: ping", "jobtype"),
        ("schedule: 0 8 * *", "schedule"),
        ("timeZone: Lisbon", "timeZone"),
        ("timeoutSeconds: -1", "timeoutSeconds"),
        ("maxAttempts: no", "maxAttempts"),
        (f"payload: {{blob: {'x' * 65536}}}", "pass ids, not blobs"),
        ("payload: {big: 9007199254740993}", "write numbers like this as strings"),
    ],
)
def test_common_yaml_mistakes_get_a_one_line_explanation(tmp_path: Path, line: str, message: str):
    write(tmp_path, "a.yaml", manifest("a", line))
    problem = only_problem(tmp_path)
    assert problem.startswith("a.yaml:")
    assert message in problem
    assert "\n" not in problem


def test_a_cron_expression_that_begins_with_a_number_needs_no_quotes(tmp_path: Path):
    write(tmp_path, "a.yaml", manifest("a", "schedule: 0 8 * * MON"))
    (schedule,) = load_folder(tmp_path).schedules
    assert schedule.spec.schedule == "0 8 * * MON"


@pytest.mark.parametrize(
    ("written", "parsed"),
    [
        ("12:30", "12:30"),
        ("1:2:3.5", "1:2:3.5"),
        ("1e3", 1000),
        ("1_000", 1000),
        ("010", 8),
        ("0x10", 16),
        ("-1.50", -1.5),
        ("=", "="),
        ("yes", True),
        ("1.2.3", "1.2.3"),
        ("08", "08"),
    ],
)
def test_a_value_is_parsed_as_kubectl_parses_it(tmp_path: Path, written: str, parsed: object):
    write(tmp_path, "a.yaml", manifest("a", f"payload: {{x: {written}}}"))
    (schedule,) = load_folder(tmp_path).schedules
    assert schedule.spec.payload == {"x": parsed}


def test_anchors_and_merges_may_be_used(tmp_path: Path):
    write(tmp_path, "a.yaml", manifest("a", "payload: {one: &one {x: 1, y: 1}, two: {<<: *one, y: 2}}"))
    (schedule,) = load_folder(tmp_path).schedules
    assert schedule.spec.payload == {"one": {"x": 1, "y": 1}, "two": {"x": 1, "y": 2}}


def test_a_folder_that_cannot_be_read_is_a_problem(postgres_folder: Path):
    write(postgres_folder, "locked/a.yaml", manifest("a"))
    (postgres_folder / "locked").chmod(0)
    try:
        with as_ordinary_user():
            assert "it cannot be read" in only_problem(postgres_folder)
            assert not load_folder(postgres_folder).complete
    finally:
        (postgres_folder / "locked").chmod(0o755)


def test_a_missing_folder_is_an_error(tmp_path: Path):
    with pytest.raises(WakeboardError, match=r"^there is no folder .*/nowhere$"):
        load_folder(tmp_path / "nowhere")
