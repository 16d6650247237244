"""The TypeScript worker keeps each promise, and the suite finds each fault that is planted into a copy of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.clients import node, typescript_command, typescript_worker
from testbed.processes import inherited_environment
from tests.conformance.planted_faults import FAULTS, Fault
from wakeboard.conformance.scenarios import SCENARIOS
from wakeboard.conformance.suite import chosen_scenarios

if TYPE_CHECKING:
    from wakeboard.conformance.suite import ScenarioResult, Suite

pytestmark = pytest.mark.xdist_group("conformance of the TypeScript worker")

# Removes the types of the planted sources, as the compiler does, without checking them.
TRANSPILE = """
const ts = require(process.argv[1]);
const fs = require("fs");
for (const { source, target } of JSON.parse(fs.readFileSync(0, "utf8"))) {
  const options = { compilerOptions: { target: "es2023", module: "esnext" } };
  fs.writeFileSync(target, ts.transpileModule(source, options).outputText);
}
"""


@pytest.fixture(scope="module")
def results(suite: Suite) -> dict[str, ScenarioResult]:
    found = suite.run(typescript_command(typescript_worker()), SCENARIOS)
    return {result.scenario: result for result in found}


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_the_typescript_worker_conforms(name: str, results: dict[str, ScenarioResult]) -> None:
    result = results[name]
    assert result.held, "\n".join([result.promise, result.found, *result.output])


@pytest.fixture(scope="module")
def results_of_faults(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ScenarioResult]:
    """What the one scenario of each fault found."""
    folder = tmp_path_factory.mktemp("faults")
    copies = planted_copies(folder)

    def run_one(fault: Fault) -> ScenarioResult:
        return suite.run(typescript_command(copies[fault.name]), chosen_scenarios([fault.scenario]), patience_s=12)[0]

    with ThreadPoolExecutor(6) as pool:
        return dict(zip(copies, pool.map(run_one, FAULTS), strict=True))


def planted_copies(folder: Path) -> dict[str, Path]:
    """A copy of the compiled worker for each fault."""
    built, copies, changes = typescript_worker(), dict[str, Path](), list[dict[str, str]]()
    for number, fault in enumerate(FAULTS):
        copy = copies[fault.name] = folder / str(number)
        shutil.copytree(built / "dist", copy / "dist")
        shutil.copy(built / "package.json", copy)
        (copy / "node_modules").symlink_to(built / "node_modules")
        source = (built / "src" / f"{fault.file}.ts").read_text(encoding="utf-8")
        changes.append({"source": fault.planted(source), "target": str(copy / "dist" / "src" / f"{fault.file}.js")})
    compiler = str(built / "node_modules" / "typescript")
    subprocess.run([str(node()), "-e", TRANSPILE, compiler], input=json.dumps(changes), text=True, check=True)
    return copies


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_suite_finds_the_fault(fault: Fault, results_of_faults: dict[str, ScenarioResult]) -> None:
    result = results_of_faults[fault.name]
    assert fault.found in result.found, f"{fault.scenario} found {result.found!r}"


def test_the_typescript_client_works_in_transactions_of_other_libraries(database: str) -> None:
    tests = sorted((typescript_worker() / "dist" / "test").glob("*.test.js"))
    ran = subprocess.run(
        [str(node()), "--test", *map(str, tests)],
        env={**inherited_environment(), "TEST_DSN": database},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
