"""Where a Kubernetes API server is, how it is trusted, and which service account this pod has."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wakeboard.errors import InvalidSettings

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where the API server is, and the certificates that it is trusted by. `ca_file` None: the system's."""

    url: str
    ca_file: Path | None = None

    @classmethod
    def of_this_pod(cls, otherwise: str) -> ApiServer:
        """The API server of the cluster in which this process runs.

        Raises InvalidSettings outside of one, with the sentence `otherwise`.
        """
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise InvalidSettings(otherwise)
        return cls(f"https://{f'[{host}]' if ':' in host else host}:{port}", SERVICE_ACCOUNT / "ca.crt")

    @classmethod
    def from_settings(cls, url: str, ca_file: str, otherwise: str) -> ApiServer:
        """The API server of these settings; an empty url names that of this pod, as `of_this_pod`."""
        if not url:
            return cls.of_this_pod(otherwise)
        return cls(url.rstrip("/"), Path(ca_file) if ca_file else None)


def ssl_context(ca_file: Path | None = None, ca_text: str | None = None) -> ssl.SSLContext:
    """Trusts the authorities of the file or the text, as kubectl does; without either those of the system.

    Since 3.13 Python also asks for key identifiers, which the authorities of older clusters do not have. Raises OSError
    if the file cannot be read, or the text has no certificate.
    """
    context = ssl.create_default_context(cafile=ca_file and str(ca_file), cadata=ca_text)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
