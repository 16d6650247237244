"""Every block of code on the site is checked by its language, whether or not a test of its page also runs it."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
import yaml

import wakeboard
from testbed.clients import node, node_packages
from testbed.processes import ROOT
from tests.chart.rendering import CHART, rendered
from tests.cli.test_advised_commands import EVERYWHERE, can_be_typed
from tests.docs.test_site import listed_pages
from tools.go_programs import find_go
from wakeboard.alerts.rules.alert_rules import load_alert_rules
from wakeboard.cli.app import root_command
from wakeboard.limits.rules.declared_limits import load_limits
from wakeboard.schedules.rules.job_schedule import load_job_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK: Final = re.compile(r"^( *)```([a-z]*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PROGRAM_OUTPUT: Final = {"", "text", "console"}  # and signatures; commands are in blocks of `sh`
LANGUAGES: Final = {*PROGRAM_OUTPUT, "sh", "sql", "yaml", "toml", "python", "py", "ts", "js", "go", "dockerfile"}
OF_OTHERS: Final = {  # the first keys of what others read; that it is YAML is all that is checked
    *("jobs", "repos", "externalRules", "server", "rules", "spec", "metadata", "heartbeats", "kind", "apiVersion"),
}
TYPESCRIPT: Final = ROOT / "clients/typescript/src"
# Tests of these pages run them in databases that have what they name.
RUN_AS_THEY_ARE: Final = {"docs/install.md", "docs/tutorials/other-languages.md"}
# A database has these where the snippets are used: Supabase's functions and roles.
SUPABASE: Final = """
create schema auth; create function auth.uid() returns uuid language sql as 'select null::uuid';
do $$ begin create role anon; exception when duplicate_object or unique_violation then null; end $$;
do $$ begin create role authenticated; exception when duplicate_object or unique_violation then null; end $$;
"""
SYNTAX: Final = """
const [, , packages, ...files] = process.argv
const ts = require(packages + "/node_modules/typescript")
for (const file of files) {
  const options = { reportDiagnostics: true, compilerOptions: { module: "esnext", target: "esnext" } }
  const { diagnostics } = ts.transpileModule(ts.sys.readFile(file), options)
  for (const each of diagnostics) console.log(file, ts.flattenDiagnosticMessageText(each.messageText, " "))
}
"""


@dataclass(frozen=True)
class Snippet:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def snippets(*languages: str) -> list[Snippet]:
    return [each for each in all_snippets() if each.language in languages]


def all_snippets() -> Iterator[Snippet]:
    for name in ["README.md", *listed_pages()]:
        path = ROOT / "docs" / name if (ROOT / "docs" / name).exists() else ROOT / name
        text = path.read_text("utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Snippet(str(path.relative_to(ROOT)), line, found[2], dedent(found[3]))


def test_every_block_is_in_a_language_that_is_checked() -> None:
    assert {str(each): each.language for each in all_snippets() if each.language not in LANGUAGES} == {}
    commands = re.compile(r"^(curl|kubectl|helm|wakeboard|make|docker|pip|git) ", re.MULTILINE)
    assert [str(each) for each in snippets("", "text") if commands.search(each.text)] == []


@pytest.mark.parametrize("snippet", snippets("python", "py"), ids=str)
def test_python_uses_names_and_parameters_that_exist(snippet: Snippet) -> None:
    tree = compile(snippet.text, str(snippet), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for found in ast.walk(tree):
        if isinstance(found, ast.Attribute) and isinstance(found.value, ast.Name) and found.value.id == "wakeboard":
            assert hasattr(wakeboard, found.attr), found.attr
        if isinstance(found, ast.Call) and ast.unparse(found.func).startswith("wakeboard."):
            called = getattr(wakeboard, ast.unparse(found.func).split(".")[1])
            given = {word.arg for word in found.keywords if word.arg}
            assert given <= parameters(called), f"{ast.unparse(found)} has {given - parameters(called)}"


def parameters(called: Any) -> set[str]:
    names = set(inspect.signature(called.__init__ if inspect.isclass(called) else called).parameters)
    return names | set(wakeboard.ScheduleOptions.__annotations__) if "options" in names else names


@pytest.mark.parametrize("page", sorted({each.page for each in snippets("sql")} - RUN_AS_THEY_ARE))
def test_sql_names_functions_and_columns_that_exist(page: str, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        for snippet in (each for each in snippets("sql") if each.page == page):
            with conn.transaction(force_rollback=True):
                conn.execute(SUPABASE if "auth.uid()" in snippet.text else "")
                for statement in statements(snippet.text):
                    explained = re.match(r"(with|select|insert|update|delete)\b", statement, re.IGNORECASE)
                    conn.execute(("explain " if explained else "").encode() + statement.encode())


def statements(text: str) -> list[str]:
    """A statement ends with a semicolon at the end of a line, outside of `$$`."""
    without_comments = re.sub(r"--[^\n]*", "", text)
    parts = re.split(r";[ ]*(?:\n|$)(?=(?:[^$]*\$\$[^$]*\$\$)*[^$]*$)", without_comments)
    return [part.strip() for part in parts if part.strip()]


@pytest.mark.parametrize("snippet", snippets("yaml"), ids=str)
def test_yaml_is_what_its_reader_takes(snippet: Snippet) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def said(_: object) -> str:
        return str(snippet)

    for document in yaml.safe_load_all(snippet.text):
        match document:
            case {"apiVersion": "wakeboard.dev/v1alpha1", "kind": kind}:
                readers: dict[str, Any] = {
                    "JobSchedule": load_job_schedule,
                    "AlertRules": load_alert_rules,
                    "Limits": load_limits,
                }
                readers[kind](document, said)
            case {**keys} if keys.keys() <= values.keys():
                rendered(document)
            case {**keys}:
                assert set(list(keys)[:1]) <= OF_OTHERS, keys.keys()
            case _:
                pytest.fail(f"{document!r} is no document")


@pytest.mark.parametrize("snippet", snippets("sh"), ids=str)
def test_commands_exist_and_have_these_options(snippet: Snippet) -> None:
    subprocess.run(["bash", "-n"], input=snippet.text, text=True, check=True, capture_output=True)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    stages = set(re.findall(r" AS ([a-z-]+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in snippet.text.replace("\\\n", " ").splitlines()]
    for line in lines:
        if found := re.match(r"(?:\S*/)?wakeboard ([a-z][^|>&;]*)", line):
            assert can_be_typed(root_command, found[1].split(), EVERYWHERE), line
        if found := re.match(r"make ([a-z-]+)", line):
            assert found[1] in targets, line
        if found := re.search(r"docker build .*--target (\S+)", line):
            assert found[1] in stages, line
        for path in re.findall(r"--set(?:-string)? ([\w.]+)=", line):
            assert has_value(path.split("."), schema()), f"the chart has no value {path}"


def has_value(path: list[str], at: Any) -> bool:
    if "$ref" in at:
        return has_value(path, schema(*at["$ref"].removeprefix("#/").split("/")))
    if not path:
        return True
    inner: Any = at.get("properties", {}).get(path[0]) or at.get("additionalProperties")
    return inner not in (None, True, False) and has_value(path[1:], inner)


def schema(*place: str) -> Any:
    at = json.loads((CHART / "values.schema.json").read_text())
    for name in place:
        at = at[name]
    return at


def test_typescript_is_typescript_and_names_what_the_client_exports(tmp_path: Path) -> None:
    (tmp_path / "syntax.cjs").write_text(SYNTAX)
    exported = set(re.findall(r"\b(\w+)\b", TYPESCRIPT.joinpath("index.ts").read_text()))
    exported |= set(
        re.findall(r"^export (?:async )?function (\w+)", (TYPESCRIPT / "client/schedules.ts").read_text(), re.MULTILINE)
    )
    for number, snippet in enumerate(snippets("ts", "js")):
        (tmp_path / f"{number}.ts").write_text(snippet.text)
        for names in re.findall(r'import \{([^}]+)\} from "wakeboard"', snippet.text):
            assert {name.split(" as ")[0].strip() for name in names.split(",")} <= exported, snippet
        called = re.findall(
            r"\b((?:enqueue|schedule|unschedule|(?:list|get|pause|resume)Schedule|runWorker)\w*)\(", snippet.text
        )
        assert set(called) <= exported, snippet
    files = sorted(str(file) for file in tmp_path.glob("*.ts"))
    words = [str(node()), str(tmp_path / "syntax.cjs"), str(node_packages()), *files]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == ""


def test_go_is_go_and_names_what_the_module_exports() -> None:
    gofmt = Path(find_go("1.21")).with_name("gofmt")
    sources = {"wakeboard": ROOT / "clients/go", "worker": ROOT / "clients/go/worker"}
    for snippet in snippets("go"):
        subprocess.run([gofmt, "-e"], input=snippet.text, text=True, check=True, capture_output=True)
        for package, name in re.findall(r"\b(wakeboard|worker)\.([A-Z]\w*)", snippet.text):
            text = "".join(file.read_text() for file in sources[package].glob("*.go"))
            assert re.search(rf"^(?:func|type|var|\t){name}\b|^func {name}\b|^type {name}\b", text, re.MULTILINE), name


@pytest.mark.parametrize("snippet", snippets("toml"), ids=str)
def test_toml_is_toml(snippet: Snippet) -> None:
    tomllib.loads(snippet.text)


@pytest.mark.parametrize("snippet", snippets("dockerfile"), ids=str)
def test_dockerfiles_are_those_of_examples(snippet: Snippet) -> None:
    assert snippet.text in {file.read_text() for file in (ROOT / "examples/image").rglob("Dockerfile")}
