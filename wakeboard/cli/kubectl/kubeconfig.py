"""Which API server a kubeconfig names, how it is trusted, and the user's token.

kubectl merges the files and answers with one context. A token is in it, in a file that it names, or comes from its
credential plugin, which this module runs as kubectl does. The board reviews that token, so nothing else can be used:
what an API server learns from a client certificate or from `--as` it does not tell the board (docs/decisions/0035).
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.kube.api_server import ssl_context
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMEOUT_S: Final = 60
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")
_SHOWN: Final = 300  # characters of another program's error
OTHER_LOGINS: Final = (
    "Use a context with a token: of OpenID Connect, of a credential plugin, or"
    ' `kubectl config set-credentials NAME --token="$(kubectl create token ACCOUNT)"`.'
)


@dataclass(frozen=True, slots=True)
class ClusterLogin:
    """A context. `token` is in no message. `server_name`: in the server's certificate; `proxy`: of HTTP, or ""."""

    server: str
    namespace: str
    context: ssl.SSLContext
    token: str = field(repr=False)
    server_name: str = ""
    proxy: str = ""


def read_login(*, context: str = "", kubeconfig: str = "") -> ClusterLogin:
    """The login of this context, or of the current one. Raises WakeboardError with a sentence that says what to do."""
    found = _view(context, kubeconfig)
    cluster = _first(found, "clusters", "cluster")
    server = str(cluster.get("server") or "")
    try:
        is_secure = urlsplit(server).scheme == "https" and (urlsplit(server).port or 1) > 0
    except ValueError:
        raise WakeboardError(f"the server {one_line(server)[:_SHOWN]!r} of this context is no address.") from None
    if not is_secure:
        raise WakeboardError(
            f"the server {server!r} of this context does not begin with https: its token would be seen."
        )
    return ClusterLogin(
        server=server.rstrip("/"),
        namespace=str(_first(found, "contexts", "context").get("namespace") or "default"),
        context=_tls_context(cluster),
        token=_checked(_token(_first(found, "users", "user"), cluster)),
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
    )


def kubectl_options(*, context: str, kubeconfig: str) -> list[str]:
    """The options of kubectl that choose this context."""
    return [
        *([f"--context={context}"] if context else []),
        *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
    ]


def _view(context: str, kubeconfig: str) -> dict[str, Any]:
    options = kubectl_options(context=context, kubeconfig=kubeconfig)
    words = ["kubectl", "config", "view", "--minify", "--raw", "--flatten", "--output=json", *options]
    said = _output(words, "kubectl")
    try:
        return json.loads(said)
    except ValueError:
        raise WakeboardError("kubectl config view printed no JSON: is `kubectl` the program of Kubernetes?") from None


def _first(found: Mapping[str, Any], name: str, inner: str) -> dict[str, Any]:
    listed: list[dict[str, Any]] = found.get(name) or []
    if not listed:
        raise WakeboardError(
            f"the kubeconfig has no {inner}: choose a context with --context or `kubectl config use-context`."
        )
    return listed[0].get(inner) or {}


def _tls_context(cluster: Mapping[str, Any]) -> ssl.SSLContext:
    authorities = cluster.get("certificate-authority-data")
    try:
        context = ssl_context(ca_text=base64.b64decode(authorities).decode() if authorities else None)
    except (ValueError, OSError):
        raise WakeboardError("certificate-authority-data of this context holds no certificates.") from None
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _token(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    if user.get("as"):
        raise WakeboardError(
            f"this context impersonates {one_line(str(user['as']))[:60]}, which the board would not know."
        )
    if user.get("exec"):
        return _token_of_plugin(user["exec"], cluster)
    if user.get("token"):
        return str(user["token"])
    if user.get("tokenFile"):
        try:
            return Path(user["tokenFile"]).read_text("utf-8").strip()
        except OSError as exc:
            raise WakeboardError(f"the token file of this context cannot be read: {exc.strerror}.") from None
    if user.get("client-certificate-data") or user.get("client-certificate"):
        raise WakeboardError(
            "this context logs in with a client certificate, which the API server does not pass on to the board."
            f" {OTHER_LOGINS}"
        )
    raise WakeboardError(f"this context has no token. {OTHER_LOGINS}")


def _checked(token: str) -> str:
    """The token, if it can be sent in a header. It is in no message."""
    found = token.strip()
    if not _SENDABLE.fullmatch(found):
        raise WakeboardError("the token of this context has a character that no token has: log in again.")
    return found


def _token_of_plugin(plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    """The token of a credential plugin (client.authentication.k8s.io)."""
    interactive = plugin.get("interactiveMode") != "Never" and sys.stdin.isatty()
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {name: value for name, value in cluster.items() if name not in {"extensions", "proxy-url"}}
    asked = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    variables: list[dict[str, str]] = plugin.get("env") or []
    given = {each["name"]: each["value"] for each in variables}
    words = [str(plugin.get("command") or ""), *map(str, plugin.get("args") or [])]
    said = _output(
        words, "the credential plugin", {**given, "KUBERNETES_EXEC_INFO": json.dumps(asked)}, interactive=interactive
    )
    try:
        status = json.loads(said)["status"]
    except (ValueError, KeyError, TypeError):
        raise WakeboardError("the credential plugin of this context printed no ExecCredential.") from None
    if not status.get("token"):
        raise WakeboardError(f"the credential plugin of this context gave a certificate and no token. {OTHER_LOGINS}")
    return str(status["token"])


def _output(words: Sequence[str], who: str, env: Mapping[str, str] | None = None, *, interactive: bool = False) -> str:
    """What a program prints. Its output is in no message, because it may have tokens."""
    try:
        done = subprocess.run(
            list(words),
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.PIPE,
            env={**os.environ, **(env or {})},
            timeout=None if interactive else TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise InvalidValue(f"{who} is not installed: there is no program {words[0][:80]!r}.") from None
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise WakeboardError(f"{who} does not answer: {type(exc).__name__}.") from None
    if done.returncode != 0:
        said = one_line((done.stderr or b"").decode(errors="replace"))[:_SHOWN] or f"exit code {done.returncode}"
        raise WakeboardError(f"{who} failed: {said}")
    return done.stdout.decode(errors="replace")
