"""Files that could block, crash or exhaust a reader: each is one problem, and the other files are loaded."""

from __future__ import annotations

import io
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.schedules.test_loader import manifest, write
from wakeboard.declared.bounded_file import MAX_FILE_BYTES
from wakeboard.errors import InvalidSettings
from wakeboard.local.worker_settings import WorkerSettings
from wakeboard.manifests import load_folder, load_stream

SPEC = (
    "apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nmetadata: {name: bad}\n"
    "spec: {jobType: ping, payload: {a: %s}}\n"
)
CHAIN = "".join(f"- &a{n} [*a{n - 1}]\n" for n in range(1, 5000))
FILES = {
    "deep flow": ("[" * 200_000, 1, "nested too deeply"),
    "deep mappings": ("{a: " * 200_000, 1, "nested too deeply"),
    "deep indentation": ("\n".join(" " * n + "a:" for n in range(200)), 65, "nested too deeply"),
    "deep compact lists": ("- " * 100_000 + "a", 1, "nested too deeply"),
    "a deep payload": (SPEC % ("[" * 5_000 + "]" * 5_000), 4, "nested too deeply"),
    "items that are a number": ("kind: List\nitems: 5\n", 2, "items must be a list"),
    "items that are a mapping": ("kind: List\nitems: {a: b}\n", 2, "items must be a list"),
    "a List that holds itself": ("kind: List\nitems: &x\n- {kind: List, items: *x}\n", 2, "a List inside a List"),
    "a payload that holds itself": (SPEC % "&x [*x]", 1, "expand to more than"),
    "an alias of nothing": (SPEC % "*x", 4, "quote a value that begins with *"),
    "an integer of 100,000 digits": (SPEC % ("1" * 100_000), 4, "this number has 100,000 characters"),
    "a float of 100,000 digits": (SPEC % ("1." + "1" * 100_000), 4, "this number has 100,002 characters"),
    "a date that does not exist": (SPEC % "2026-02-31", 4, "'2026-02-31' is not a valid value; quote it"),
    "a tag that does not fit": (SPEC % "!!int x", 4, "'x' is not a valid value"),
    "an invalid binary": (SPEC % "!!binary \u00e9", 4, ""),
    "an invalid timestamp": (SPEC % "!!timestamp x", 4, "'x' is not a valid value"),
    "a chain of aliases": ("- &a0 [x]\n" + CHAIN + "---\n" + SPEC % "1", None, ""),
    "many documents": ("--- a\n" * 30_000, 10_001, "has too many documents or values"),
    "many nodes": ("[" + "a," * 1_000_000 + "]", 1, "has too many documents or values"),
    "a large file": ("#" * (MAX_FILE_BYTES + 1), 1, "larger than 4,096 KiB"),
    "control characters": ("a: \x00", 1, "control character"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_one_problem_and_the_others_are_loaded(name: str, tmp_path: Path) -> None:
    text, line, message = FILES[name]
    write(tmp_path, "a.yaml", manifest("a"))
    bad = write(tmp_path, "b.yaml", text)
    write(tmp_path, "c.yaml", manifest("c"))
    found = load_folder(tmp_path)
    valid = [each.full_name for each in found.schedules if each.metadata.name != "bad"]
    assert valid == ["default/a", "default/c"]
    if line is not None:
        (problem,) = found.problems
        assert problem.startswith(f"{bad}:{line}: ")
        assert message in problem
        assert not found.complete or ("default", "bad") in found.invalid


def test_documents_before_the_hostile_one_are_loaded(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", manifest("a") + "---\n" + "[" * 100_000)
    found = load_folder(tmp_path)
    assert [each.full_name for each in found.schedules] == ["default/a"]
    assert not found.complete


def test_payloads_that_a_chain_of_aliases_makes_deep_are_refused(tmp_path: Path) -> None:
    chain = "".join(f"    a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5000))
    write(
        tmp_path,
        "a.yaml",
        SPEC.replace("{jobType: ping, payload: {a: %s}}", f"\n  jobType: ping\n  payload:\n    a0: &a0 [x]\n{chain}"),
    )
    (problem,) = load_folder(tmp_path).problems
    assert "expand to too many levels" in problem


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    (tmp_path / "terminal.yaml").symlink_to("/dev/tty")
    (tmp_path / "folder.yaml").symlink_to(tmp_path)
    (tmp_path / "nowhere.yaml").symlink_to(tmp_path / "not there")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.yaml"))
    target = write(tmp_path, "hidden/.a", manifest("linked"))
    (tmp_path / "linked.yaml").symlink_to(target)
    found = load_folder(tmp_path)
    assert [each.full_name for each in found.schedules] == ["default/linked"]
    assert sum("nowhere.yaml: it cannot be read" in problem for problem in found.problems) == 1
    assert (
        sum("is not a regular file" in problem for problem in found.problems) == 4
    )  # a link to a folder is not followed
    assert not found.complete


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_that_fails_while_it_is_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "memory.yaml").symlink_to("/proc/self/mem")
    assert load_folder(tmp_path).problems == (f"{tmp_path}/memory.yaml: it cannot be read: Input/output error",)


def test_a_pipe_given_by_name_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = load_folder(tmp_path / "pipe")
    assert "is not a regular file" in found.problems[0]
    assert not found.complete


def test_standard_input_has_the_same_limits() -> None:
    assert [each.full_name for each in load_stream(io.BytesIO(manifest("a").encode()), "stdin").schedules] == [
        "default/a"
    ]
    with Path("/dev/zero").open("rb") as endless:
        assert "larger than" in load_stream(endless, "stdin").problems[0]
    assert load_stream(io.BytesIO(b"[" * 100_000), "stdin").problems[0].startswith("stdin:1: ")


def test_wakeboard_env_is_read_within_limits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "wakeboard.env")
    with pytest.raises(InvalidSettings, match=r"wakeboard.env, line 1: this is not a regular file"):
        WorkerSettings(tmp_path, "")
    (tmp_path / "wakeboard.env").unlink()
    (tmp_path / "wakeboard.env").write_text("#" * 100_000)
    with pytest.raises(InvalidSettings, match=r"wakeboard.env, line 1: the file is larger than 64 KiB"):
        WorkerSettings(tmp_path, "")


def test_recursion_is_limited(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", SPEC % ("[" * 30 + "]" * 30))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        load_folder(tmp_path)
    finally:
        sys.setrecursionlimit(limit)


def test_the_name_of_a_file_forges_no_problem(tmp_path: Path) -> None:
    (tmp_path / "a\nforged.yaml:1: limits were removed\x1b[2K.yaml").write_text("kind: JobSchedule\nspec: 5\n")
    (tmp_path / "b\nforged.yaml").write_text("spec: 5\n")
    found = load_folder(tmp_path)
    assert found.problems
    assert found.notes
    assert not {"\n", "\x1b"} & set("".join([*found.problems, *found.notes]))
