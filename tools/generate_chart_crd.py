"""Prints charts/wakeboard/templates/crd.yaml: the resource definition as a template that may be left out, or kept."""

from __future__ import annotations

import sys
from typing import Any, Final

from tools.generate_crd import definition, page

MADE: Final = "{{- /* Made by tools/generate_chart_crd.py from crds/; `make fix` makes it anew. */}}\n"
BEGINNING: Final = "{{- if .Values.crds.enabled }}\n"
END: Final = "{{- end }}\n"

LABELS_AND_ANNOTATIONS: Final = """\
  labels:
    {{- include "wakeboard.labels" (list . "crd") | nindent 4 }}
  {{- $annotations := dict }}
  {{- if .Values.crds.keep }}
  {{- $keep := "helm.sh/resource-policy: keep\\nargocd.argoproj.io/sync-options: Prune=false,Delete=false" }}
  {{- $annotations = fromYaml $keep }}
  {{- end }}
  {{- with merge $annotations .Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
"""


def template() -> str:
    """The definition with the release's labels, and whatever a template would take for its own written as text."""
    made, _, text = page().partition("\n")
    assert made.startswith("# Made by"), made
    name = f"metadata:\n  name: {_name(definition())}\n"
    before, found, after = text.partition(name)
    assert found, "the definition's name stands at another place"
    body = _as_text(before) + name + LABELS_AND_ANNOTATIONS + _as_text(after)
    return MADE + BEGINNING + body + END


def _name(document: dict[str, Any]) -> str:
    return str(document["metadata"]["name"])


def _as_text(text: str) -> str:
    return text.replace("{{", '{{ "{{" }}')


if __name__ == "__main__":
    sys.stdout.write(template())
