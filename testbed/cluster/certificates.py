"""The certificates of a test cluster: an authority in a folder, and what it signs for servers and users.

They carry no key identifiers, as those of clusters that were made before 2020: clients must do without.
"""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BEFORE = timedelta(hours=1)  # for clocks that differ
VALID = timedelta(days=7)


class KeyPair(NamedTuple):
    """Paths of PEM files."""

    certificate: Path
    key: Path


class Authority:
    """What signs. Processes that know its folder may each have one: the files are the authority."""

    def __init__(self, folder: Path) -> None:
        """Reads the authority in the folder."""
        self._folder = folder
        self.certificate = folder / "ca.crt"
        self._issuer = x509.load_pem_x509_certificate(self.certificate.read_bytes()).subject
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """A new authority, in a folder that is made for it."""
        folder.mkdir(parents=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject("test-cluster", ())
        builder = _builder(subject, key).issuer_name(subject)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_may_sign_certificates(), critical=True)
        _write(folder / "ca.crt", builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write(folder / "ca.key", _pem(key))
        return cls(folder)

    def issue(self, file: str, user: str, groups: Iterable[str] = (), hosts: Iterable[str] = ()) -> KeyPair:
        """`FILE.crt` and `FILE.key` for a client that is this user in these groups, or a server with these hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(user, groups), key).issuer_name(self._issuer)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(usage, critical=False)
        if names := [_host(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        pair = KeyPair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        _write(pair.certificate, builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write(pair.key, _pem(key))
        return pair


def make_signing_key(folder: Path) -> KeyPair:
    """The key that signs service account tokens, `sa.key`, and what checks them, `sa.pub`."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = KeyPair(folder / "sa.pub", folder / "sa.key")
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    _write(pair.certificate, key.public_key().public_bytes(serialization.Encoding.PEM, public))
    _write(pair.key, _pem(key))
    return pair


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - BEFORE).not_valid_after(now + VALID)


def _subject(user: str, groups: Iterable[str]) -> x509.Name:
    """Kubernetes reads the user from the common name and the groups from the organisations."""
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _may_sign_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(path: Path, content: bytes) -> None:
    """For the owner's eyes only, and whole at once: another process may be about to read it."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    unfinished.rename(path)
