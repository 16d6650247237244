"""Which API server a kubeconfig names, how it is trusted, and the user's token.

kubectl merges the files and answers with one context. A token is in it, in a file that it names, or comes from its
credential plugin, which this module runs as kubectl does. The board reviews that token, so nothing else can be used:
what an API server learns from a client certificate or from `--as` it does not tell the board (docs/decisions/0035).
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from wakeboard.cli.support.kubectl import kubectl_options
from wakeboard.cli.support.program_output import ProgramFailed, ProgramMissing, program_output
from wakeboard.errors import WakeboardError
from wakeboard.kube.api_server import ssl_context
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.cli.kubectl.place import Place

TIMEOUT_S: Final = 60.0  # of kubectl, and of a credential plugin that asks the user nothing
LONGEST_TALK_S: Final = 600.0  # of a credential plugin with the user
CLUSTER_FIELDS: Final = (  # what a credential plugin may learn (client.authentication.k8s.io/v1)
    *("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data"),
    *("proxy-url", "disable-compression"),
)
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"  # of a cluster: its `config` for credential plugins
NO_CONTEXT: Final = "current-context must exist"
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


def read_login(place: Place) -> ClusterLogin:
    """The login of the context of `place`. Raises WakeboardError with a sentence that says what to do."""
    found = _view(place)
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
        token=_checked(_token(_first(found, "users", "user"), cluster, place)),
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
    )


def _view(place: Place) -> dict[str, Any]:
    options = kubectl_options(context=place.context, kubeconfig=place.kubeconfig)
    words = ["kubectl", "config", "view", "--minify", "--raw", "--flatten", "--output=json", *options]
    try:
        said = program_output(words, "kubectl", timeout_s=min(TIMEOUT_S, 2 * place.timeout_s))
    except ProgramFailed as failed:
        if NO_CONTEXT not in failed.said:
            raise
        raise WakeboardError(
            "current-context is not set: there is no kubeconfig, or it names none. Name one with --kubeconfig,"
            " KUBECONFIG or --context."
        ) from None
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


def _token(user: Mapping[str, Any], cluster: Mapping[str, Any], place: Place) -> str:
    """The token that kubectl would send: of the file, of the kubeconfig, or of the credential plugin, in this order."""
    if user.get("as"):
        raise WakeboardError(
            f"this context impersonates {one_line(str(user['as']))[:60]}, which the board would not know."
        )
    if user.get("tokenFile"):
        try:
            return Path(user["tokenFile"]).read_text("utf-8").strip()
        except (OSError, ValueError) as exc:
            why = getattr(exc, "strerror", None) or "it is no text"
            if not user.get("token"):
                raise WakeboardError(f"the token file of this context cannot be read: {why}.") from None
    if user.get("token"):
        return str(user["token"])
    if user.get("exec"):
        return _token_of_plugin(user["exec"], cluster, place)
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


def _token_of_plugin(plugin: Mapping[str, Any], cluster: Mapping[str, Any], place: Place) -> str:
    """The token of a credential plugin (client.authentication.k8s.io)."""
    mode = plugin.get("interactiveMode") or "IfAvailable"
    interactive = place.may_ask and mode != "Never" and sys.stdin.isatty()
    if mode == "Always" and not interactive:
        raise WakeboardError("the credential plugin of this context asks the user: run the command in a terminal.")
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _cluster_info(cluster)
    asked = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    variables: list[dict[str, str]] = plugin.get("env") or []
    given = {each["name"]: each["value"] for each in variables}
    try:
        said = program_output(
            [str(plugin.get("command") or ""), *map(str, plugin.get("args") or [])],
            "the credential plugin",
            timeout_s=LONGEST_TALK_S if interactive else min(TIMEOUT_S, 2 * place.timeout_s),
            env={**given, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
            interactive=interactive,
        )
    except ProgramMissing as missing:
        hint = one_line(str(plugin.get("installHint") or ""))[:_SHOWN]
        raise WakeboardError(f"{missing} {hint}".rstrip()) from None
    status: Any = None
    with suppress(ValueError, LookupError, TypeError):
        status = json.loads(said)["status"]
    if not isinstance(status, dict):
        raise WakeboardError("the credential plugin of this context printed no ExecCredential.")
    token = cast("dict[str, Any]", status).get("token")
    if not token:
        raise WakeboardError(f"the credential plugin of this context gave a certificate and no token. {OTHER_LOGINS}")
    return str(token)


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster as a credential plugin gets it, with the `config` that an extension of the cluster holds for it."""
    info = {name: cluster[name] for name in CLUSTER_FIELDS if cluster.get(name)}
    extensions: list[dict[str, Any]] = cluster.get("extensions") or []
    config = [each.get("extension") for each in extensions if each.get("name") == EXEC_EXTENSION]
    return {**info, **({"config": config[0]} if config else {})}
