"""Runs the linters on the chart, rendered with each values file of charts/wakeboard/ci.

Prints the findings of each linter under a heading. tools/chart_exceptions.py has the accepted ones, with reasons.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tools.bootstrap import report
from tools.chart_exceptions import Finding, unexcused
from tools.chart_linters import find_tool, install_missing
from tools.chart_rules import alerts_of, dashboard_queries, reduced

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "charts" / "wakeboard"
ALERTS_TEST = ROOT / "tests" / "chart" / "alerts_test.yaml"
KUBERNETES = "1.31.0"  # the oldest that Chart.yaml allows
LONGEST_CRON_JOB = 52  # characters: its Jobs add 11, and have 63
LONGEST_NAME = 63
LONG_RELEASE = "a-release-name-that-is-as-long-as-helm-allows-it-2026"

Documents = dict[str, list[dict[str, Any]]]  # by the name of the rendering


class Refused(Exception):
    """A linter failed. The message is its output."""


def run_tool(tool: str, *words: str | Path, also: tuple[int, ...] = ()) -> str:
    """The output of the tool. Raises Refused for an exit code other than 0 and those of `also`."""
    answer = subprocess.run([find_tool(tool), *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode and answer.returncode not in also:
        raise Refused((answer.stderr + answer.stdout).strip())
    return answer.stdout


def value_files() -> dict[str, Path]:
    """The ways to install the chart, by name."""
    return {path.name.removesuffix("-values.yaml"): path for path in sorted(CHART.glob("ci/*-values.yaml"))}


def render(release: str, values: Path, folder: Path) -> Path:
    """Makes `folder`/NAME.yaml of the chart with these values. Raises Refused."""
    words = ["template", release, CHART, "--namespace", "jobs", "--kube-version", KUBERNETES, "--values", values]
    folder.mkdir(exist_ok=True)
    rendered = folder / f"{values.name.removesuffix('-values.yaml')}.yaml"
    rendered.write_text(run_tool("helm", *words))
    return rendered


# -- The findings of each linter ----------------------------------------------------------------------------------


def refusals(tool: str, *words: str | Path) -> list[str]:
    """What a tool says if it refuses."""
    try:
        run_tool(tool, *words)
    except Refused as refusal:
        return [str(refusal)]
    return []


def from_lint(values: Path) -> list[str]:
    """`helm lint --strict`."""
    words = ("lint", "--strict", "--quiet", "--kube-version", KUBERNETES, CHART, "--values", values)
    return [f"{values.relative_to(ROOT)}: {refusal}" for refusal in refusals("helm", *words)]


def from_names(documents: Documents) -> list[str]:
    """No object twice, no name too long."""
    found: list[str] = []
    for rendering, objects in documents.items():
        names = Counter(thing(each) + " in " + each["metadata"].get("namespace", "no namespace") for each in objects)
        found += [f"{rendering}: {name} is there {count} times." for name, count in names.items() if count > 1]
        for each in objects:
            longest = LONGEST_CRON_JOB if each["kind"] == "CronJob" else LONGEST_NAME
            name = each["metadata"]["name"]
            if len(name) > longest and "rbac" not in each["apiVersion"] and each["kind"] != "CustomResourceDefinition":
                found.append(f"{rendering}: {thing(each)} has {len(name)} characters, and {longest} are allowed.")
    return found


def from_score(rendered: Path) -> list[Finding]:
    """kube-score, on all objects of one rendering."""
    optional = "container-ports-check,container-seccomp-profile"
    words = ["score", "--kubernetes-version", "v" + KUBERNETES.rpartition(".")[0], "--output-format", "json"]
    answer: list[dict[str, Any]] | None = json.loads(
        run_tool("kube-score", *words, "--enable-optional-test", optional, rendered, also=(1,))
    )
    return [
        Finding("kube-score", rule, rendered.stem, scored(each), sentence)
        for each in answer or []
        for check in each["checks"]
        if check["grade"] < 10 and not check["skipped"]  # noqa: PLR2004 - kube-score's word for "well"
        for rule, sentence in score_words(check)
    ]


def scored(found: dict[str, Any]) -> str:
    """The object's kind and name."""
    return f"{found['type_meta']['kind']}/{found['object_meta']['name']}"


def score_words(check: dict[str, Any]) -> list[tuple[str, str]]:
    """The rule and what it says, for each of its comments. Rules that look at several things are taken apart."""
    rule: str = check["check"]["id"]
    if not check["comments"]:
        return [(rule, check["check"]["comment"])]
    apart = {"CPU limit is not set": "container-cpu-limit"}
    return [(apart.get(comment["summary"], rule), comment["summary"]) for comment in check["comments"]]


def from_checkov(folder: Path) -> list[Finding]:
    """checkov, on all renderings at once, since it takes long to start."""
    words = ["--framework", "kubernetes", "--skip-download", "--quiet", "--compact", "--output", "json"]
    answer = json.loads(run_tool("checkov", "--directory", folder, *words, also=(1,)))
    return [
        Finding("checkov", failed["check_id"], Path(failed["file_path"]).stem, resource(failed), failed["check_name"])
        for failed in answer["results"]["failed_checks"]
    ]


def resource(failed: dict[str, Any]) -> str:
    """What checkov calls `Kind.namespace.name`, as kube-score says it. Pods of templates have labels behind that."""
    kind, _, name, *_ = failed["resource"].split(".")
    return f"{kind}/{name}"


def from_promtool(documents: Documents) -> list[str]:
    """`promtool check rules` on what is installed and on the dashboard's queries; `promtool test rules`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rendering, objects in documents.items():
            for rules in alerts_of(objects):
                (folder / f"rules-{rendering}.yaml").write_text(yaml.safe_dump(rules))
        (folder / "dashboard.yaml").write_text(yaml.safe_dump(dashboard_queries(CHART / "files" / "dashboard.json")))
        tested = next(iter(alerts_of(documents["monitoring"])))
        (folder / "alerts.yaml").write_text(yaml.safe_dump(reduced(tested)))
        (folder / ALERTS_TEST.name).write_text(ALERTS_TEST.read_text())
        found = refusals("promtool", "check", "rules", *sorted(folder.glob("[rd]*.yaml")))
        found += refusals("promtool", "test", "rules", folder / ALERTS_TEST.name)
        return [refusal.replace(f"{folder}/", "") for refusal in found]


def thing(found: dict[str, Any]) -> str:
    """An object's kind and name."""
    return f"{found['kind']}/{found['metadata']['name']}"


# -- All of them -------------------------------------------------------------------------------------------------------


def lint(folder: Path) -> dict[str, list[str]]:
    """The findings by linter. The renderings are written to `folder`/ways."""
    files = value_files()
    with ThreadPoolExecutor() as executor:

        def ask(linter: Callable[..., list[Any]], *words: Any) -> Callable[[], list[Any]]:
            return executor.submit(linter, *words).result

        documents, unrendered = read_renderings(executor, files, folder)
        if unrendered:  # the others would only repeat them
            return {"helm template": unrendered}
        scored_or_checked = [ask(from_checkov, folder / "ways")]  # the slowest
        scored_or_checked += [ask(from_score, rendered) for rendered in sorted((folder / "ways").glob("*.yaml"))]
        linted = [ask(from_lint, values) for values in files.values()]
        tested = ask(refusals, "helm-unittest", "--strict", CHART)
        return {
            "names of objects": from_names(documents),
            "promtool": from_promtool(documents),
            "helm lint": [sentence for answer in linted for sentence in answer()],
            "helm unittest": tested(),
            "kube-score and checkov": unexcused([finding for answer in scored_or_checked for finding in answer()]),
        }


def read_renderings(executor: ThreadPoolExecutor, files: dict[str, Path], folder: Path) -> tuple[Documents, list[str]]:
    """The objects of each rendering, and of one under a long name; and what could not be rendered."""
    ways, long_names = folder / "ways", folder / "long"
    asked = {name: executor.submit(render, "wakeboard", values, ways) for name, values in files.items()}
    asked["long names"] = executor.submit(render, LONG_RELEASE, files["everything"], long_names)
    documents: Documents = {}
    unrendered: list[str] = []
    for name, answer in asked.items():
        try:
            text = answer.result().read_text()
        except Refused as refusal:
            unrendered.append(f"charts/wakeboard/ci/{name}-values.yaml cannot be rendered: {refusal}")
            continue
        documents[name] = [document for document in yaml.safe_load_all(text) if document]
    return documents, unrendered


def main() -> int:
    """Prints the findings of each linter under a heading. Returns 1 if there are any."""
    install_missing()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        found = lint(Path(name))
    for linter, sentences in found.items():
        if sentences:
            report(f"\n{linter} ({len(sentences)})")
        for sentence in sentences:
            report("  " + re.sub(r"\n", "\n    ", sentence))
    if any(found.values()):
        report("\nFix these findings, or accept them with a reason in tools/chart_exceptions.py.")
        return 1
    report(f"No findings in {len(value_files())} renderings of the chart ({time.monotonic() - began:.0f} s).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
