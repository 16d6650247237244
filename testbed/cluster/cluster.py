"""The client side of a running test cluster: its address, kubectl, API calls, and kubeconfigs for any user."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import ssl
import subprocess
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from testbed.cluster.binaries import find_program
from testbed.cluster.certificates import Authority, KeyPair
from testbed.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


TIMEOUT_S = 60.0  # seconds until a command or a call that does not end is a failure
APPLIED = "fieldManager=kubectl&force=true&fieldValidation=Strict"
LONGEST_SUMMARY = 4000  # characters of objects in a message


class Refused(Exception):
    """kubectl failed or the API server refused a request. `status` is the HTTP status, or 0 for kubectl."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Cluster:
    """A running API server. All requests are an administrator's unless another kubeconfig is given.

    `folder` holds `pki/`, the logs of its parts in `log/`, and kubeconfigs; `admin` is the administrator's.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.admin = folder / "admin.kubeconfig"
        self._idle: list[http.client.HTTPSConnection] = []  # kept, because a handshake costs more than a request

    def kubectl(self, *words: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Runs kubectl. Returns its output; raises Refused with its error output."""
        login = ["--kubeconfig", str(kubeconfig or self.admin)]
        # kubectl caches discovery by address and port, which another test run may have used.
        memory = ["--cache-dir", str(self.folder / "kubectl")]
        command = [str(find_program("kubectl")), *login, *memory, *words]
        answer = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        if answer.returncode:
            raise Refused(answer.stderr.strip())
        return answer.stdout

    def apply(self, *documents: dict[str, Any], namespace: str = "default", options: str = "") -> None:
        """Applies the documents as `kubectl apply --server-side --force-conflicts` does, without a process of it.

        `namespace`: of those that name none. `options`: more parameters of the request, such as `dryRun=All`.
        Raises Refused with the sentence of the API server.
        """
        for document in documents:
            about = document["metadata"]
            kind = self._kind(document["apiVersion"], document["kind"])
            place = f"namespaces/{about.get('namespace', namespace)}/" if kind["namespaced"] else ""
            path = f"{_api(document['apiVersion'])}/{place}{kind['name']}/{about['name']}?{APPLIED}&{options}"
            try:
                self.call("PATCH", path, document, "application/apply-patch+yaml")
            except Refused as refused:
                raise Refused(json.loads(str(refused))["message"], refused.status) from None

    def _kind(self, version: str, kind: str) -> dict[str, Any]:
        """What the API server says about a kind: the name of its collection, and whether it is in a namespace."""
        for each in self.call("GET", _api(version))["resources"]:
            if each["kind"] == kind and "/" not in each["name"]:
                return each
        raise Refused(f"the API server knows no {kind} in {version}")

    def call(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        """The API server's answer to one request as JSON, in a millisecond; raises Refused with its reason."""
        status, text = self._request(method, path, None if body is None else json.dumps(body), content)
        if status >= http.client.BAD_REQUEST:
            raise Refused(text, status)
        return json.loads(text)

    def lines(self, path: str) -> Iterator[str]:
        """Streams the lines of a response. Raises Refused, or OSError when the connection is lost."""
        connection = self._connect()
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status >= http.client.BAD_REQUEST:
                raise Refused(answer.read().decode(), answer.status)
            while line := answer.readline():
                yield line.decode()
        finally:
            connection.close()

    def wait_for(self, path: str, come: Callable[[list[Any]], bool], within: float = TIMEOUT_S) -> list[Any]:
        """Polls a collection, and returns its objects once `come` is true of them.

        The path may have selectors: `/api/v1/namespaces/shop/pods?labelSelector=app%3Dtill`.
        """
        objects: list[Any] = []

        def has_come() -> bool:
            with suppress(OSError, http.client.HTTPException):  # the API server restarts
                objects[:] = self.call("GET", path)["items"]
                return come(objects)
            return False

        wait_for(has_come, within_s=within, why=lambda: f"{path} has {json.dumps(objects)[:LONGEST_SUMMARY]}")
        return objects

    def ready(self) -> bool:
        """Whether the API server answers /readyz with 200."""
        try:
            return self._request("GET", "/readyz")[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def kubeconfig_of_user(self, user: str, groups: Iterable[str] = ()) -> Path:
        """A login, by certificate, as a user who may do what RBAC grants to the user and the groups: first, nothing."""
        file = f"{re.sub('[^a-z0-9]+', '-', user)}-{secrets.token_hex(4)}"
        pair = Authority(self.folder / "pki").issue(file, user, groups)
        return self._write_kubeconfig(file, certificate_login(pair))

    def kubeconfig_of_service_account(self, namespace: str, name: str) -> Path:
        """A login, by token, as a service account that exists."""
        made = self.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {"spec": {}})
        login = {"token": made["status"]["token"]}
        return self._write_kubeconfig(f"{namespace}-{name}-{secrets.token_hex(4)}", login)

    def _write_kubeconfig(self, file: str, login: dict[str, str]) -> Path:
        path = self.folder / f"{file}.kubeconfig"
        path.write_text(kubeconfig(self.url, self.folder / "pki" / "ca.crt", login))
        return path

    def disconnect(self) -> None:
        """Closes the connections that `call` keeps."""
        while self._idle:
            self._idle.pop().close()

    def _request(self, method: str, path: str, body: str | None = None, content: str = "") -> tuple[int, str]:
        headers = {"Content-Type": content} if body else {}
        with suppress(IndexError, OSError, http.client.HTTPException):  # none is idle, or its API server has ended
            return self._exchange(self._idle.pop(), method, path, body, headers)
        return self._exchange(self._connect(), method, path, body, headers)

    def _exchange(self, connection: http.client.HTTPSConnection, *request: Any) -> tuple[int, str]:
        """Sends a request. Keeps the connection unless it fails."""
        try:
            connection.request(*request)
            answer = connection.getresponse()
            text = answer.read().decode()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer.status, text

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(urlsplit(self.url).netloc, context=self._login_context, timeout=TIMEOUT_S)

    @cached_property
    def _login_context(self) -> ssl.SSLContext:
        pki = self.folder / "pki"
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        return context


def _api(version: str) -> str:
    """Where the API server serves the kinds of an `apiVersion`."""
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def certificate_login(pair: KeyPair) -> dict[str, str]:
    """The `user` of a kubeconfig that logs in with these files."""
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}


def kubeconfig(url: str, authority: Path, login: dict[str, str]) -> str:
    """A kubeconfig with one login; it is JSON, and so YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": "test", "user": login}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    return json.dumps(document, indent=2)
