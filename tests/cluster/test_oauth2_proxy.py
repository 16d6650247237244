"""The board behind a real oauth2-proxy, with the files of docs/production.md; RBAC of a real API server decides."""

from __future__ import annotations

import re
import socket
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from yarl import URL

from testbed.board_server import serving
from testbed.login_proxy import oauth2_proxy
from testbed.login_proxy.openid_provider import OpenIdProvider
from testbed.processes import ROOT
from tests.board.action_store import Store
from tests.board.test_watch import Identity
from tests.cluster.test_board_access import account, reviews_of
from wakeboard import run_token
from wakeboard.board import BoardOptions
from wakeboard.board.access import ProxyAccess
from wakeboard.board.access.run_tokens import RunTokenAccess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

    from testbed.cluster.cluster import Cluster

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("crds")]

ANNA = "анна@example.com"  # sent as UTF-8
SECRET = "correct horse battery staple"
RUN_TOKENS = "s" * 32
APPLICATION = "https://app.example.com"
FORGED = (
    {"X-Forwarded-User": "root", "X-Forwarded-Groups": "system:masters"},
    {"X_Forwarded_User": "root", "x_forwarded_groups": "system:masters"},
    {"X-Forwarded.User": "root"},
    {"X-Forwarded-User": "root", "X-Wakeboard-Proxy-Secret": "guess"},
    {"Connection": "X-Forwarded-User, X-Forwarded-Groups"},  # which makes proxies remove the headers that they have set
    {"Connection": "X-Wakeboard-Proxy-Secret"},
)

REFUSED = {400, 401}


@dataclass
class Site:
    """The addresses of a board, of the proxy before it, and of the provider that knows ANNA."""

    board: str
    proxy: str
    provider: str


def documented(name: str, replaced: dict[str, str]) -> str:
    """The file of oauth2-proxy with this name in docs/production.md, with the addresses and paths of the test."""
    found = re.search(rf"# oauth2-proxy: {name}\n(.*?)```", (ROOT / "docs/production.md").read_text(), re.DOTALL)
    assert found
    text = found[1]
    for old, new in replaced.items():
        text = text.replace(old, new)
    assert "example.com" not in text.replace('"example.com"', ""), "an address of the documentation is left"
    return text


@contextmanager
def behind_oauth2_proxy(dsn: str, access: ProxyAccess, group: str, folder: Path) -> Generator[Site]:
    for name, content in {"secret": SECRET, "client-secret": "client", "cookie-secret": "0" * 32}.items():
        (folder / name).write_text(content)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    site = Site("", f"http://{listen}", "")
    (folder / "run-tokens").write_text(RUN_TOKENS)
    options = BoardOptions(
        dsn=dsn, access=access, origin=site.proxy, run_tokens=RunTokenAccess(folder / "run-tokens", [APPLICATION])
    )
    with OpenIdProvider(ANNA, [group]).serving() as site.provider, serving(options) as site.board:
        replaced = {
            "0.0.0.0:4180": listen,
            "http://wakeboard-board.wakeboard.svc": site.board,
            "https://login.example.com": site.provider,
            "https://jobs.example.com": site.proxy,
            "/etc/board": str(folder),
            "/etc/oauth2-proxy": str(folder),
        }
        alpha, configuration = (documented(name, replaced) for name in ("alpha.yaml", "oauth2-proxy.cfg"))
        with oauth2_proxy.running(alpha, configuration + "cookie_secure = false\n", site.proxy, folder):
            yield site


@asynccontextmanager
async def site_of_a_group(cluster: Cluster, group: str, dsn: str, folder: Path) -> AsyncGenerator[Site]:
    """A site whose board has the rights that the chart gives it. The group may see and retry all runs."""
    (folder / "token").write_text(account(cluster, group, "board"))
    rules = [(["jobschedules/runs"], ["get"]), (["jobschedules/retry"], ["create"])]
    bindings: list[tuple[str, str, dict[str, Any]]] = [
        ("retry", group, {"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}),
        ("board", "system:auth-delegator", {"kind": "ServiceAccount", "name": "board", "namespace": group}),
    ]
    cluster.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": group},
            "rules": [{"apiGroups": ["wakeboard.dev"], "resources": parts, "verbs": verbs} for parts, verbs in rules],
        }
    )
    for name, role, subject in bindings:
        cluster.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{group}-{name}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [subject],
            }
        )
    async with reviews_of(cluster) as reviews:
        access = ProxyAccess(reviews, secret=SECRET, token_file=folder / "token")
        with behind_oauth2_proxy(dsn, access, group, folder) as site:
            yield site


async def test_a_user_of_oauth2_proxy_sees_and_does_what_the_groups_may(
    control_plane: Cluster, namespace: str, database: str, tmp_path: Path
):
    store = Store(database)
    run = store.run("dead")
    async with (
        site_of_a_group(control_plane, namespace, database, tmp_path) as site,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser,
    ):

        async def ask(method: str, url: str, **headers: str) -> tuple[int, str, str]:
            async with browser.request(method, url, headers=headers, allow_redirects=False) as answer:
                return answer.status, answer.headers.get("location", ""), await answer.text()

        for forged in FORGED:
            assert (await ask("GET", f"{site.proxy}/", **forged))[1].startswith(f"{site.provider}/authorize")
            assert (await ask("GET", f"{site.board}/", **forged))[0] in REFUSED
        row = Identity(run, store.value("select uuid from job_runs where id = %s", run))
        token = run_token(row, RUN_TOKENS, expires=datetime.now(UTC) + timedelta(hours=1))
        async with browser.get(f"{site.proxy}/api/v1/watch/{token}", headers={"Origin": APPLICATION}) as watched:
            assert (await watched.json())["status"] == "dead"
            assert watched.headers["access-control-allow-origin"] == APPLICATION
        for around in ("../runs", "%2e%2e/runs", "..%2fruns", f"{token}/../../runs", "x"):
            for forged in ({}, *FORGED):
                url = URL(f"{site.proxy}/api/v1/watch/{around}", encoded=True)
                async with browser.get(url, headers=forged, allow_redirects=False) as answer:
                    assert answer.status >= 300, around
        async with browser.get(f"{site.proxy}/runs/{run}") as page:  # the browser follows the login and comes back
            assert (str(page.url), page.status) == (f"{site.proxy}/runs/{run}", 200)
            assert ANNA in await page.text()
        for forged in FORGED:
            status, _, text = await ask("GET", f"{site.proxy}/", **forged)
            assert status in REFUSED or ANNA in text, forged
        async with browser.get(f"{site.proxy}/events") as stream:
            assert await stream.content.readline() == b"retry: 2000\n"
        retried = await ask("POST", f"{site.proxy}/runs/{run}/retry", origin=site.proxy)
        discarded = await ask("POST", f"{site.proxy}/runs/{run}/discard", origin=site.proxy)
        elsewhere = await ask("POST", f"{site.proxy}/runs/{run}/retry", origin="https://evil.example")
        await ask("GET", f"{site.proxy}/oauth2/sign_out")
        logged_out = await ask("GET", f"{site.proxy}/runs/{run}")

    assert (retried[0], discarded[0], elsewhere[0]) == (303, 403, 403)
    assert logged_out[1].startswith(f"{site.provider}/authorize")
    assert [(actor, action) for actor, _, action, _ in store.audit()] == [(ANNA, "retry")]
    store.conn.close()
