"""`kubectl wakeboard` reads and acts through a real API server, with the permissions of its user."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest
import yaml

from testbed.cluster.binaries import find_program
from testbed.cluster.board import SERVICE, board_of, kubeconfig_of_user, lead_to, own_address
from tests.cli.conftest import Result
from tests.cli.sample_store import SampleStore
from tests.cluster.test_board_access import account, grant
from wakeboard.cli import main as wakeboard
from wakeboard.cli.kubectl import COMMANDS
from wakeboard.cli.kubectl import main as plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.cluster import Cluster

pytestmark = pytest.mark.usefixtures("crds")

ROOT = Path(__file__).resolve().parents[2]
ALL_ACTIONS = [("create", action) for action in ("retry", "cancel", "replay", "discard", "release", "run")]


def rules_of_the_guide() -> list[Any]:
    """The rules of the Role in docs/kubectl.md."""
    block = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "kubectl.md").read_text("utf-8"), re.DOTALL)
    assert block
    return yaml.safe_load(block[1])["rules"]


@dataclass(frozen=True)
class Installation:
    """A board with the login `kubernetes` behind the API server, and the database that it shows."""

    cluster: Cluster
    namespace: str
    folder: Path
    database: str
    capsys: pytest.CaptureFixture[str]

    def user(self, name: str, *rules: tuple[str, str], uses_proxy: bool = True) -> str:
        """The path of the kubeconfig of a user with these rights in the namespace."""
        token = account(self.cluster, self.namespace, name)
        grant(self.cluster, self.namespace, name, *rules)
        if uses_proxy:
            self.bind_proxy_role(name)
        return self.kubeconfig(name, {"token": token})

    def bind_proxy_role(self, name: str) -> None:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "board-proxy"}
        self.cluster.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "board-proxy", "namespace": self.namespace},
                "rules": rules_of_the_guide(),
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"{name}-proxy", "namespace": self.namespace},
                "roleRef": role,
                "subjects": [subject],
            },
        )

    def kubeconfig(self, name: str, user: dict[str, Any]) -> str:
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(kubeconfig_of_user(self.cluster, self.namespace, user)))
        return str(path)

    def kubectl(self, kubeconfig: str, *arguments: str) -> Result:
        """`kubectl wakeboard` in this process."""
        return self._run(plugin, *arguments, f"--kubeconfig={kubeconfig}", f"--board-namespace={self.namespace}")

    def wakeboard(self, *arguments: str) -> Result:
        return self._run(wakeboard, *arguments, "--dsn", self.database)

    def _run(self, program: Any, *arguments: str) -> Result:
        self.capsys.readouterr()
        code = program(arguments)
        printed = self.capsys.readouterr()
        return Result(code, printed.out, printed.err)


@pytest.fixture
def installation(
    control_plane: Cluster,
    namespace: str,
    database: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Installation]:
    monkeypatch.setenv("PATH", f"{find_program('kubectl').parent}:{programs(tmp_path / 'bin')}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    try:
        own_address()
    except OSError:
        pytest.skip("this machine has no address besides loopback")
    with board_of(control_plane, namespace, database):
        yield Installation(control_plane, namespace, tmp_path, database, capsys)


@pytest.fixture
def other_namespace(control_plane: Cluster, namespace: str) -> Iterator[str]:
    other = f"{namespace}-b"
    control_plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": other}})
    yield other
    control_plane.call("DELETE", f"/api/v1/namespaces/{other}")


@pytest.fixture
def sample(database: str) -> Iterator[SampleStore]:
    store = SampleStore(database)
    yield store
    store.close()


def programs(folder: Path) -> Path:
    """A folder with the programs of the package, as an installation makes them."""
    folder.mkdir()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for name, place in declared.items():
        module, _, function = place.partition(":")
        text = f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def of_plugin(text: str) -> str:
    """The text with advice to use the plugin."""
    return re.sub(rf"`wakeboard ({'|'.join(COMMANDS)})\b", r"`kubectl wakeboard \1", text)


def shown(words: list[str], text: str) -> list[str]:
    """The lines without times. Runs of the same time may be in any order."""
    text = re.sub(r"\d+ ms|\d+ (s|min|h) ago|in \d+ (s|min|h|days)|now|\d\d:\d\d:\d\d", "…", text)
    lines = [" ".join(line.split()) for line in text.splitlines()]  # widths of columns follow the times
    return sorted(lines) if words[0] == "runs" else lines


def by_id(found: Any) -> list[str]:
    """The JSON of each row. Runs of the same time may be in any order."""
    rows = cast("list[Any]", found) if isinstance(found, list) else [found]
    has_runs = '"uuid"' in json.dumps(rows)
    texts = [json.dumps(row) for row in rows]
    return sorted(texts) if has_runs else texts


def test_commands_print_what_those_of_the_database_print(installation: Installation, sample: SampleStore):
    name = installation.namespace
    sample.register_worker("report")
    schedule = sample.add_schedule(f"{name}/daily")
    dead, done, waits = (sample.run_now(schedule) for _ in range(3))
    epoch = sample.claim(dead)
    sample.log(dead, "began", "went wrong", epoch=epoch)
    sample.sql("select wakeboard.revoke(array[%s]::bigint[])", dead)
    sample.fail(dead, outcome="discarded")
    sample.succeed(done, {"rows": 12, "note": "ä"})
    user = installation.user("anna", ("get", "runs"))

    for words in (
        ["schedules"],
        ["runs"],
        ["runs", "status:dead"],
        ["runs", "--schedule", "daily", "--output", "wide"],
        *(["run", str(run)] for run in (dead, done, waits)),
        *(["explain", str(run)] for run in (dead, done, waits)),
        ["explain", "daily"],
        ["schedule", "daily"],
        ["next", "daily"],
        ["logs", str(dead)],
        ["logs", str(waits)],
    ):
        expected, answer = installation.wakeboard(*words), installation.kubectl(user, *words)
        assert (answer.code, answer.err) == (expected.code, of_plugin(expected.err)), words
        assert shown(words, answer.out) == shown(words, of_plugin(expected.out))
        if "wide" not in words:
            rows = installation.wakeboard(*words, "--json").json
            found = installation.kubectl(user, *words, "-o", "json").json
            assert by_id(found) == by_id(rows), words


def test_rbac_decides_what_a_user_sees_and_does(installation: Installation, sample: SampleStore):
    name = installation.namespace
    sample.register_worker("report")
    mine, hidden = (sample.run_now(sample.add_schedule(f"{where}/daily")) for where in (name, "elsewhere"))
    sample.fail(mine, outcome="discarded")
    viewer = installation.user("viewer", ("get", "runs"))
    editor = installation.user("editor", ("get", "runs"), *ALL_ACTIONS)

    assert [row["id"] for row in installation.kubectl(viewer, "runs", "-A", "-o", "json").json] == [mine]
    assert installation.kubectl(viewer, "runs", "-n", "elsewhere").out == "no run matches.\n"
    assert "there is no run" in installation.kubectl(viewer, "run", str(hidden)).err
    refused = installation.kubectl(viewer, "retry", str(mine))
    assert (refused.code, "(permission: retry)" in refused.err) == (1, True)
    refused = installation.kubectl(editor, "retry", str(mine), str(hidden))
    assert refused.code == 1
    assert refused.out == f"run {mine} is queued again, due now.\n"
    assert f"run {hidden}: refused: " in refused.err
    again = installation.kubectl(editor, "retry", str(mine), "-o", "json")
    assert again.json == [{"id": mine, "answer": "refused: the run is queued", "refused": True}]
    made = installation.kubectl(editor, "run-now", "daily", "--payload", '{"days": 7}', "-o", "json").json
    assert made["schedule"] == f"{name}/daily"
    assert sample.value("select payload from wakeboard.job_runs where id = %s", made["id"]) == {"days": 7}
    assert {
        actor for (actor,) in sample.sql("select distinct actor::text from wakeboard.audit_log where source = 'board'")
    } == {f"system:serviceaccount:{name}:editor"}


def test_view_of_one_namespace_shows_no_other(installation: Installation, sample: SampleStore, other_namespace: str):
    name = installation.namespace
    sample.register_worker("report")
    mine = sample.run_now(sample.add_schedule(f"{name}/daily"))
    theirs = sample.add_schedule(f"{other_namespace}/secret-audit", payload={"to": "hidden"}, labels={"team": "hidden"})
    dead, running, waits = (sample.run_now(theirs) for _ in range(3))
    nameless = sample.enqueue("report", {"to": "hidden"})
    epoch = sample.claim(dead)
    sample.log(dead, "hidden", epoch=epoch)
    sample.sql("select wakeboard.revoke(array[%s]::bigint[])", dead)
    sample.fail(dead, "hidden", outcome="discarded")
    sample.claim(running)
    sample.sql("select wakeboard.pause('all', 'maintenance')")
    january = ("--from", "2026-01-01", "--to", "2026-02-01")
    installation.wakeboard("backfill", f"{other_namespace}/secret-audit", *january)
    uuid = str(sample.value("select uuid from wakeboard.all_runs where id = %s", dead))
    user = installation.user("viewer", ("get", "runs"), *ALL_ACTIONS)
    state = sample.sql("select id, status::text, lease_epoch from wakeboard.all_runs order by id")

    for words in (
        *(("runs", *more) for more in ((), ("-A",), ("-n", other_namespace), ("-A", "-o", "wide"))),
        *(("runs", "-A", search) for search in ("secret-audit", "error:hidden", "payload.to:hidden", "type:report")),
        *(("runs", "-A", search) for search in (f"id:{dead}", f"uuid:{uuid}", f"NOT schedule:{name}/*", "status:dead")),
        ("runs", "-A", "--schedule", "secret-audit"),
        *(("schedules", *more) for more in ((), ("-A",), ("-n", other_namespace), ("--namespace", other_namespace))),
        *((verb, f"{other_namespace}/secret-audit") for verb in ("schedule", "explain", "next", "run-now")),
        *((verb, "-n", other_namespace, "secret-audit") for verb in ("schedule", "explain", "next", "run-now")),
        ("logs", "--schedule", f"{other_namespace}/secret-audit"),
        *((verb, str(run)) for verb in ("run", "explain", "logs") for run in (dead, running, waits, nameless)),
        *((verb, uuid[:8]) for verb in ("run", "explain", "logs")),
        *((verb, str(dead)) for verb in ("retry", "discard", "replay")),
        ("cancel", str(waits)),
        ("release", str(running)),
        *((verb, "--all-dead", "--yes") for verb in ("retry", "discard", "replay")),
        ("cancel", "--all-queued", "--type", "nothing", "--yes"),
        *(("backfill", *more) for more in (("-A",), ("1",), ("1", "--cancel"), ("-n", other_namespace))),
        ("backfill", f"{other_namespace}/secret-audit", *january),
        ("check",),
    ):
        answer = installation.kubectl(user, *words)
        said = answer.out + answer.err
        asked = {other_namespace, "secret-audit"} & {part for word in words for part in word.split("/")}
        assert "Traceback" not in said, words
        assert "hidden" not in said.replace("payload.to:hidden", "").replace("error:hidden", ""), words
        if not asked:
            assert other_namespace not in said, words
            assert "secret-audit" not in said, words
        elif answer.code == 0:
            assert not re.search("secret-audit", answer.out), words

    assert sample.sql("select id, status::text, lease_epoch from wakeboard.all_runs order by id") == state
    assert [row["id"] for row in installation.kubectl(user, "runs", "-A", "-o", "json").json] == [mine]


def test_a_backfill_is_what_it_is_on_the_command_line(installation: Installation, sample: SampleStore):
    name = installation.namespace
    sample.add_schedule(f"{name}/daily", "0 2 * * *")
    sample.add_schedule("elsewhere/daily", "0 2 * * *")
    viewer = installation.user("viewer", ("get", "runs"))
    allowed = (*ALL_ACTIONS, *(("create", action) for action in ("pause", "cancel")))
    editor = installation.user("editor", ("get", "runs"), *allowed)
    january = ("--from", "2026-01-01", "--to", "2026-02-01")

    def both(*words: str) -> str:
        """What `kubectl wakeboard` prints, which is what the command line prints."""
        answer, expected = installation.kubectl(editor, "backfill", *words), installation.wakeboard("backfill", *words)
        assert (answer.code, answer.out, answer.err) == (expected.code, of_plugin(expected.out), expected.err)
        return answer.out

    assert "31 ticks: 31 have not run" in both(f"{name}/daily", *january, "--dry-run")
    both(f"{name}/daily", *january, "--dry-run", "--json")
    refused = installation.kubectl(viewer, "backfill", "daily", *january)
    assert (refused.code, "(permission: run)" in refused.err) == (1, True)
    assert sample.value("select count(*) from wakeboard.backfills") == 0
    made = installation.kubectl(editor, "backfill", "daily", *january, "--at-once", "2", "--reason", "the bank")
    assert made.out.startswith(f"backfill 1: 31 ticks of {name}/daily. `kubectl wakeboard backfill 1 --watch`")
    both("1", "--json")
    assert "no tick of" in installation.kubectl(editor, "backfill", "daily", *january).err
    installation.wakeboard("backfill", "elsewhere/daily", *january)
    assert [row["id"] for row in installation.kubectl(viewer, "backfill", "-A", "--json").json] == [1]
    assert installation.kubectl(viewer, "backfill", "2").err.startswith("wakeboard: there is no backfill 2")
    assert installation.kubectl(editor, "backfill", "1", "--pause").out == "backfill 1 is paused.\n"
    assert installation.kubectl(editor, "backfill", "1", "--pause").err.endswith("is not changed: it is paused.\n")
    assert installation.kubectl(editor, "backfill", "1", "--resume", "--json").json == {"id": 1, "changed": True}
    cancelled = installation.kubectl(editor, "backfill", "1", "--cancel")
    assert cancelled.out == "backfill 1 is cancelled: 31 runs cancelled.\n"
    watched = installation.kubectl(viewer, "backfill", "1", "--watch")
    assert (watched.code, watched.out) == (1, "0 of 31 done, cancelled.\n")


def test_each_way_to_reach_no_board_has_a_sentence(installation: Installation):
    cluster, name = installation.cluster, installation.namespace
    stranger = installation.user("stranger", ("get", "runs"), uses_proxy=False)
    nobody = installation.user("nobody")
    wrong = installation.kubeconfig("wrong", {"token": "wrong"})
    certified = installation.kubeconfig("certified", {"client-certificate-data": "eA==", "client-key-data": "eA=="})
    viewer = installation.user("viewer", ("get", "runs"))

    def error(kubeconfig: str, *words: str) -> str:
        answer = installation.kubectl(kubeconfig, "runs", *words)
        assert answer.code
        assert "Traceback" not in answer.err
        return answer.err

    assert f"you may not `list services` in the namespace {name}" in error(stranger)
    assert f"you may not `get services/proxy` on {SERVICE}:http in the namespace {name}" in error(
        stranger, "--board", SERVICE
    )
    assert "may see the runs of no namespace" in error(nobody)
    assert "the API server refuses your token" in error(wrong)
    assert "logs in with a client certificate, which the API server does not pass on" in error(certified)
    assert "there is no board-of-tea:http" in error(viewer, "--board", "board-of-tea") or "may not" in error(
        viewer, "--board", "board-of-tea"
    )
    cluster.call("PUT", f"/api/v1/namespaces/{name}/endpoints/{SERVICE}", {"metadata": {"name": SERVICE}})
    assert "the board is not ready" in error(viewer)
    cluster.call("DELETE", f"/api/v1/namespaces/{name}/services/{SERVICE}")
    assert f"there is no board with a Service in the namespace {name}" in error(viewer)


@pytest.fixture
def foreign() -> Iterator[type[Foreign]]:
    """A server of another program."""
    server = ThreadingHTTPServer((own_address(), 0), Foreign)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Foreign.port = server.server_port
    yield Foreign
    server.shutdown()
    thread.join()
    server.server_close()


class Foreign(BaseHTTPRequestHandler):
    """Gives each request the same answer."""

    port = 0
    answer: ClassVar[tuple[int, str]] = (200, "")

    def do_GET(self) -> None:
        status, text = self.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Prints nothing."""


def test_what_is_no_board_is_never_right(installation: Installation, foreign: type[Foreign]):
    user = installation.user("anna", ("get", "runs"))
    lead_to(installation.cluster, installation.namespace, own_address(), foreign.port)
    for answer in (
        (404, '{"detail": "Not Found"}'),
        (404, '{"title": "Not Found", "status": 404, "detail": "The board has no page at this address."}'),
        (404, "404 page not found"),
        (200, "<html>"),
        (200, '{"items": []}'),
        (200, '{"items": [{"id": 1}], "next": null}'),
        (200, "[]"),
        (200, "{}"),
    ):
        foreign.answer = answer
        for command in ("check", "runs", "schedules", "backfill", "run 1", "run-now a"):
            said = installation.kubectl(user, *command.split())
            assert (said.code, said.out) == (1, ""), (answer, command)
            assert re.search("is no board|there is no wakeboard-board|of another release", said.err), (answer, command)


def test_names_and_logs_are_found_among_any_number(installation: Installation, sample: SampleStore):
    name = installation.namespace
    schedule = sample.add_schedule(f"{name}/daily")
    started = sample.run_now(schedule)
    epoch = sample.claim(started)
    sample.log(started, "began", epoch=epoch)
    sample.sql(  # the same name in 600 namespaces that come first
        "insert into wakeboard.job_definitions overriding system value"
        " select (jsonb_populate_record(def, jsonb_build_object('id', 10000 + n,"
        " 'namespace', '0' || n % 600, 'source', 'file:' || n))).*"
        "   from wakeboard.job_definitions as def, generate_series(1, 1100) as n"
    )
    sample.sql("select run.* from generate_series(1, 60), lateral wakeboard.run_now(%s) as run", schedule)
    user = installation.user("anna", ("get", "runs"))

    assert installation.kubectl(user, "schedule", "daily", "--json").json["name"] == f"{name}/daily"
    assert "began" in installation.kubectl(user, "logs", "--schedule", "daily").out


def test_kubectl_finds_the_plugin_and_its_completion(installation: Installation, sample: SampleStore):
    sample.add_schedule(f"{installation.namespace}/daily")
    user = installation.user("anna", ("get", "runs"))
    words = ["kubectl", "wakeboard", "schedules", "--kubeconfig", user, "--board-namespace", installation.namespace]

    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)

    assert f"{installation.namespace}/daily" in shown.stdout


def test_a_completion_asks_the_board_that_the_words_name(
    installation: Installation, sample: SampleStore, other_namespace: str
):
    name = installation.namespace
    for each in (f"{name}/daily", f"{other_namespace}/dates"):
        sample.add_schedule(each)
    user = installation.user("anna", ("get", "runs"))
    grant(installation.cluster, other_namespace, "anna", ("get", "runs"), home=name)
    board = ("--kubeconfig", user, "--board-namespace", name)

    def completions(*words: str) -> list[str]:
        done = subprocess.run(
            ["kubectl", "__complete", "wakeboard", *words], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.split()

    assert completions(*board, "run-now", "da") == ["daily", ":4"]
    assert completions("run-now", *board, f"-n{other_namespace}", "da") == ["dates", ":4"]
    both = (f"--kubeconfig={user}", f"--board-namespace={name}", "run-now", "-A", "da")
    assert completions(*both) == ["daily", "dates", ":4"]
