"""Which GitOps tool declares a schedule, and which of its labels are stored."""

from __future__ import annotations

import pytest

from wakeboard.schedules.rules.schedule_origin import origin_of, shown_labels

FLUX = {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
HELM = {"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "prod"}
ARGO_CD = {"argocd.argoproj.io/tracking-id": "shop:wakeboard.dev/JobSchedule:prod/nightly"}


@pytest.mark.parametrize(
    ("labels", "annotations", "origin"),
    [
        ({}, {}, ""),
        ({"team": "billing"}, {"note": "x"}, ""),
        ({}, ARGO_CD, "Argo CD application shop"),
        (FLUX, {}, "Flux Kustomization flux-system/apps"),
        ({"helm.toolkit.fluxcd.io/name": "shop"}, HELM, "Flux HelmRelease shop"),
        ({}, HELM, "Helm release prod/shop"),
        ({}, {"argocd.argoproj.io/tracking-id": ""}, ""),
    ],
)
def test_the_tool_that_declares_a_schedule_is_named(labels: dict[str, str], annotations: dict[str, str], origin: str):
    assert origin_of(labels, annotations) == origin


def test_an_origin_is_one_short_line():
    origin = origin_of({}, {"argocd.argoproj.io/tracking-id": "a\nb\x1b[31m" + "x" * 1000})

    assert len(origin) == 300
    assert origin.isprintable()


def test_labels_of_tools_are_left_out_and_ten_are_kept():
    labels = {f"label-{number:02}": "x" for number in range(20)}

    assert shown_labels({**FLUX, "helm.sh/chart": "shop-1", "team": "billing"}) == {"team": "billing"}
    assert list(shown_labels(labels)) == [f"label-{number:02}" for number in range(10)]
    assert shown_labels({"a": "x" * 64, "b\0": "x", "c": "d"}) == {"c": "d"}
