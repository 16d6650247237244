"""Contexts of a kubeconfig as kubectl reads them: tokens, credential plugins, and no kubeconfig at all."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.binaries import find_program
from wakeboard.cli.kubectl.kubeconfig import read_login
from wakeboard.cli.kubectl.place import Place
from wakeboard.errors import WakeboardError

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER: dict[str, Any] = {
    "server": "https://api.example.com",
    "tls-server-name": "api",
    "proxy-url": "http://proxy.example.com:3128",
    "extensions": [
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "billing"}},
        {"name": "other", "extension": {"color": "blue"}},
    ],
}
PLUGIN = """#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" > {folder}/info.json
echo '{{"kind": "ExecCredential", "status": {{"token": "of-the-plugin"}}}}'
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{find_program('kubectl').parent}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return tmp_path


def write(folder: Path, user: dict[str, Any], cluster: dict[str, Any] = CLUSTER) -> None:
    """Writes the kubeconfig of one context."""
    found = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "one", "cluster": cluster}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "users": [{"name": "one", "user": user}],
    }
    (folder / "config").write_text(json.dumps(found))


def plugin(folder: Path, script: str = PLUGIN, **more: Any) -> dict[str, Any]:
    """A user with a credential plugin."""
    program = folder / "plugin"
    program.write_text(script.format(folder=folder))
    program.chmod(0o755)
    about = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    return {"exec": {**about, **more}}


def test_a_plugin_learns_what_kubectl_would_say_of_the_cluster(folder: Path):
    write(folder, plugin(folder, provideClusterInfo=True))

    login = read_login(Place())

    assert (login.token, login.proxy, login.server_name) == ("of-the-plugin", CLUSTER["proxy-url"], "api")
    assert json.loads((folder / "info.json").read_text())["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://api.example.com",
            "tls-server-name": "api",
            "proxy-url": "http://proxy.example.com:3128",
            "config": {"audience": "billing"},
        },
    }


def test_tokens_have_the_order_of_kubectl(folder: Path):
    (folder / "token").write_text("of-the-file\n")
    file = {"tokenFile": str(folder / "token")}
    for user, expected in (
        (file | {"token": "written"}, "of-the-file"),
        ({"tokenFile": str(folder / "gone"), "token": "written"}, "written"),
        (plugin(folder) | {"token": "written"}, "written"),
        (plugin(folder) | file, "of-the-file"),
    ):
        write(folder, user)
        assert read_login(Place()).token == expected


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("#!/bin/sh\nsleep 1000 & wait", "did not end within"),
        ("#!/bin/sh\nexec sleep 1000", "did not end within"),
        ("#!/bin/sh\necho not you >&2; exit 1", "the credential plugin failed: not you"),
        ("#!/bin/sh\necho '[]'", "printed no ExecCredential"),
        ('#!/bin/sh\necho \'{{"status": {{"clientCertificateData": "x"}}}}\'', "gave a certificate and no token"),
    ],
)
def test_a_plugin_that_gives_no_token_has_a_sentence(folder: Path, script: str, says: str):
    write(folder, plugin(folder, script))
    began = time.monotonic()
    with pytest.raises(WakeboardError, match=says):
        read_login(Place(timeout_s=2.0 if "sleep" in script else 30.0))
    assert time.monotonic() - began < 100


def test_a_process_that_a_plugin_leaves_behind_delays_nothing(folder: Path):
    write(folder, plugin(folder, "#!/bin/sh\nsleep 50 &" + PLUGIN.removeprefix("#!/bin/sh")))
    began = time.monotonic()
    assert read_login(Place()).token == "of-the-plugin"
    assert time.monotonic() - began < 50


def test_a_plugin_that_must_ask_is_not_started_without_a_terminal(folder: Path):
    write(folder, plugin(folder, interactiveMode="Always"))
    with pytest.raises(WakeboardError, match="run the command in a terminal"):
        read_login(Place())


def test_a_plugin_that_is_not_installed_says_how_to_install_it(folder: Path):
    write(folder, plugin(folder, command="no-such-plugin", installHint="See https://example.com/login."))
    with pytest.raises(WakeboardError, match=r"there is no program 'no-such-plugin'\. See https://example\.com"):
        read_login(Place())


@pytest.mark.usefixtures("folder")
def test_without_a_kubeconfig_it_says_what_kubectl_says():
    with pytest.raises(WakeboardError, match=r"^current-context is not set: .* --kubeconfig, KUBECONFIG or --context"):
        read_login(Place())
    with pytest.raises(WakeboardError, match=r"no such file|cannot locate|does not exist"):
        read_login(Place(context="nowhere"))
