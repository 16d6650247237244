"""Reads from the labels and annotations of a JobSchedule which GitOps tool declares it, and which labels to show.

The tools mark each object that they apply:

- Argo CD: the annotation `argocd.argoproj.io/tracking-id` (`APPLICATION:GROUP/KIND:NAMESPACE/NAME`)
- Flux: the labels `kustomize.toolkit.fluxcd.io/name` and `/namespace`, for charts `helm.toolkit.fluxcd.io/…`
- Helm: the annotations `meta.helm.sh/release-name` and `/release-namespace`

A user who may write a JobSchedule may write these too: they say where it comes from, and prove nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_ORIGIN: Final = 300  # characters
MOST_LABELS: Final = 10
LONGEST_NAME: Final = 317  # characters of a label's name: a prefix of 253, a slash and 63
LONGEST_VALUE: Final = 63  # characters
ARGO_CD: Final = "argocd.argoproj.io/tracking-id"
FLUX: Final = (("kustomize.toolkit.fluxcd.io", "Flux Kustomization"), ("helm.toolkit.fluxcd.io", "Flux HelmRelease"))
HELM: Final = "meta.helm.sh/release"
_OF_TOOLS: Final = (  # beginnings of names
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "helm.sh/",
    "meta.helm.sh/",
    "kubectl.kubernetes.io/",
    "wakeboard.dev/",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
)


def origin_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The object that declares a schedule, such as "Argo CD application shop"; "" if no tool is known."""
    if application := annotations.get(ARGO_CD, "").partition(":")[0]:
        return _shown(f"Argo CD application {application}")
    for prefix, kind in FLUX:
        if name := labels.get(f"{prefix}/name"):
            return _shown(f"{kind} {_in_namespace(labels.get(f'{prefix}/namespace'), name)}")
    if release := annotations.get(f"{HELM}-name"):
        return _shown(f"Helm release {_in_namespace(annotations.get(f'{HELM}-namespace'), release)}")
    return ""


def without_tools(names: Mapping[str, str]) -> dict[str, str]:
    """These labels or annotations without those that tools set."""
    return {name: value for name, value in names.items() if not name.startswith(_OF_TOOLS)}


def shown_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The first ten labels by name, without those that tools set."""
    kept = [
        (name, value)
        for name, value in sorted(without_tools(labels).items())
        if len(name) <= LONGEST_NAME and len(value) <= LONGEST_VALUE and "\0" not in name + value
    ]
    return dict(kept[:MOST_LABELS])


def _in_namespace(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _shown(text: str) -> str:
    return one_line(text)[:LONGEST_ORIGIN]
