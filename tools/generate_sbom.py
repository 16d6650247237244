"""Prints the software bill of materials of one image as CycloneDX 1.6 JSON: `python -m tools.generate_sbom worker`.

It names every Python package of the image, and the scripts that the board serves, with version, licence and SHA-256.
A package has a hash for each file that the lock allows, of which one is installed. The bill of an image that is built
(`make release`) has the packages of Debian, too. The same packages give the same bytes: there is no timestamp, and the
serial number is made from the content.
"""

# The library's classes are made by a decorator that hides their parameters from type checkers.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false, reportMissingTypeArgument=false, reportArgumentType=false

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tools.image_packages import Package, packages
from wakeboard import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


def bill(image: str, base: Sequence[Package] = ()) -> str:
    """The document for `image`, one of LOCKS in tools/image_packages.py, with the packages of its base."""
    found = [*packages(image), *base]
    licences = LicenseFactory()
    bom = Bom(components=[_component(package, licences) for package in found])
    whole = bom.metadata.component = Component(
        name=f"wakeboard-{image}",
        version=__version__,
        type=ComponentType.CONTAINER,
        bom_ref=f"wakeboard-{image}",
        licenses=[licences.make_from_string("Apache-2.0")],
    )
    bom.register_dependency(whole, bom.components)
    content = json.dumps([(package.name, package.version, package.sha256) for package in found])
    bom.serial_number = uuid5(NAMESPACE_URL, f"wakeboard-{image} {__version__} {content}")
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["metadata"]["timestamp"]
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _component(package: Package, licences: LicenseFactory) -> Component:
    namespace = "debian" if package.ecosystem == "deb" else None
    url = PackageURL(package.ecosystem, namespace, package.name, package.version, dict(package.qualifiers))
    homepage = ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(package.homepage))
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=str(url),
        purl=url,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256) for sha256 in package.sha256],
        licenses=[licences.make_from_string(package.licence)] if package.licence else [],
        external_references=[homepage] if package.homepage else [],
    )


if __name__ == "__main__":
    sys.stdout.write(bill(sys.argv[1]))
