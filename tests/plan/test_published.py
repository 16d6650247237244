"""What other repositories use: the GitHub Action, the pre-commit hook, and the JSON Schemas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml

from testbed.processes import inherited_environment

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.plan.conftest import Repository

ROOT = Path(__file__).parents[2]
SCHEMAS = {path.stem.removeprefix("wakeboard-"): json.loads(path.read_text()) for path in ROOT.glob("schemas/json/*")}
KINDS = {"JobSchedule": "job-schedule", "AlertRules": "alert-rules", "Limits": "limits"}


def run_action(repository: Repository, arguments: str) -> tuple[int, str]:
    """The exit code of the action's script, and the summary that it writes."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    inputs = {"before": "main", "folder": "schedules", "days": "30", "arguments": arguments}
    assert inputs.keys() == action["inputs"].keys()
    files = {name: repository.folder / name.lower() for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    environment = {
        **inherited_environment(),
        **{
            name: inputs[value.split()[1].partition(".")[2]] for name, value in step["env"].items() if "inputs" in value
        },
        **{name: str(path) for name, path in files.items()},
        "RUNNER_TEMP": str(repository.folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    ran = subprocess.run(["bash", "-c", step["run"]], cwd=repository.folder, env=environment, check=False)
    assert files["GITHUB_OUTPUT"].read_text() == f"markdown={repository.folder}/wakeboard-plan.md\n"
    return ran.returncode, files["GITHUB_STEP_SUMMARY"].read_text("utf-8")


def test_the_action_writes_the_plan_and_fails_for_a_mistake(repository: Repository):
    repository.write("one", schedule="0 3 * * *")
    repository.commit()
    repository.write("one", schedule="0 4 * * *")
    repository.write("two", schedule="0 25 * * *")

    code, summary = run_action(repository, "--strict")

    assert code == 1
    assert summary.startswith("### Plan: 1 changed, 1 not compared; 30 ticks, 30 moved\n")
    assert "**files**: schedules/two" in summary


@pytest.mark.parametrize(("arguments", "expected"), [("", 0), ("--strict", 1)])
@pytest.mark.parametrize("keeps", [True, False])
def test_the_action_compares_a_folder_that_comes(repository: Repository, arguments: str, expected: int, keeps: bool):
    (repository.folder / ("schedules" if keeps else "docs")).mkdir()
    (repository.folder / ("schedules" if keeps else "docs") / "README.md").write_text("none yet")
    repository.commit()
    repository.write("one", schedule="0 3 * * *", payload={"password": "clear"})

    code, summary = run_action(repository, arguments)

    assert code == expected
    assert summary.startswith("### Plan: 1 added; 0 -> 30 ticks, 30 gained\n")


@pytest.mark.parametrize("keeps", [True, False])
def test_the_action_compares_a_folder_that_goes(repository: Repository, keeps: bool):
    repository.write("one", schedule="0 3 * * *")
    repository.commit()
    repository.remove("one")
    if not keeps:
        (repository.folder / "schedules").rmdir()

    code, summary = run_action(repository, "--strict")

    assert (code, summary.partition("\n")[0]) == (0, "### Plan: 1 removed; 30 -> 0 ticks, 30 lost")


def test_the_hook_checks_the_whole_folder_and_fails_for_warnings(bare_cli: Cli, repository: Repository):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["pass_filenames"], hook["always_run"]) == (False, True)
    program, *words = [*hook["entry"].split(), *hook["args"]]
    assert program == "wakeboard"
    repository.write("extract", every="6h")
    repository.write("report", after=[{"schedule": "extract"}])
    assert bare_cli(*words).code == 0

    repository.write("secret", every="6h", payload={"password": "clear"})
    assert bare_cli(*words).code == 1
    repository.remove("secret")

    repository.remove("extract")
    missing = bare_cli(*words)
    assert (missing.code, "shop/report runs after shop/extract, which does not exist" in missing.out) == (1, True)


def test_the_schemas_have_every_field_of_the_examples():
    documents = [
        document
        for path in [*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("tests/schedules/full*.yaml")]
        for document in yaml.safe_load_all(path.read_text())
        if document and document.get("kind") in KINDS
    ]
    assert {document["kind"] for document in documents} == KINDS.keys()
    for document in documents:
        schema = SCHEMAS[KINDS[document["kind"]]]
        assert [*unknown_fields(document, schema, schema)] == []
    catalog = json.loads((ROOT / "schemas/catalog.json").read_text())
    assert {entry["url"] for entry in catalog["schemas"]} == {schema["$id"] for schema in SCHEMAS.values()}


def unknown_fields(value: Any, node: dict[str, Any], schema: dict[str, Any]) -> Any:
    """The fields of a document that its schema does not have, by what editors look at."""
    if "$ref" in node:
        node = schema["definitions"][node["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from unknown_fields(item, node.get("items", {}), schema)
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            known = node.get("properties", {}).get(name, node.get("additionalProperties", True))
            if known is False:
                yield name
            elif known is not True:
                yield from unknown_fields(inner, known, schema)
