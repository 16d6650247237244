"""Prints deploy/argocd/argocd-cm.yaml: what Argo CD's own ConfigMap gains, from the Lua files beside it."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "argocd"
KIND = "wakeboard.dev_JobSchedule"
ACTIONS = ("run-now", "retry-dead", "suspend", "resume")


def main() -> None:
    """Prints the file."""
    lines = [
        "# Made by tools/generate_argocd.py from the Lua files here. Merge it into Argo CD's ConfigMap:",
        "#   kubectl patch configmap argocd-cm -n argocd --patch-file deploy/argocd/argocd-cm.yaml",
        "data:",
        f"  resource.customizations.health.{KIND}: |",
        *_indented((FOLDER / "health.lua").read_text(), 4),
        f"  resource.customizations.actions.{KIND}: |",
        "    discovery.lua: |",
        *_indented((FOLDER / "action-discovery.lua").read_text(), 6),
        "    definitions:",
    ]
    for action in ACTIONS:
        text = (FOLDER / f"action-{action}.lua").read_text()
        lines += [f"      - name: {action}", "        action.lua: |", *_indented(text, 10)]
    lines += [
        f"  resource.customizations.ignoreDifferences.{KIND}: |",
        "    jsonPointers:",
        "      - /status",
    ]
    print("\n".join(lines))


def _indented(text: str, by: int) -> list[str]:
    return [f"{' ' * by}{line}".rstrip() for line in text.splitlines()]


if __name__ == "__main__":
    main()
