"""What `make release` builds: the list, its manifest, and the archives that no other tool writes."""

from __future__ import annotations

import json
import re
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import wakeboard
from tests.chart.rendering import rendered
from tools.build_site import VERSIONS
from tools.chart_rules import alerts_of
from tools.generated import GENERATED
from tools.kubectl_plugin import COMPLETION, krew_manifest
from tools.release.__main__ import replaceable
from tools.release.archives import pack_folder, unpack
from tools.release.artifacts import ARTIFACTS, image_labels
from tools.release.check import STEPS, succeeds
from tools.release.distribution import Distribution, Failed
from tools.release.go_module import Refused, of_module, write_module
from tools.release.manifest import build, files_of
from tools.release.notes import NoNotes, release_notes
from tools.release.site import add as add_sites
from tools.release.source import Source, tag_problem
from tools.stamp_version import FILES, stamped

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Source(version="0.1.0", commit="c0ffee", time=1_795_826_049, tag="v0.1.0", modified=False)
FAST = [each for each in ARTIFACTS if each.name in {"go", "crds", "schemas"}]
GO = {"go.mod": b"module example.dev/m\n\ngo 1.26\n", "a.go": b"package m\n", "LICENSE": b"free\n"}
CHANGELOG = """# Changelog

## [Unreleased]

- Next. ([docs/a.md](docs/a.md#b))

## [0.1.0] - 2026-12-01

- First, see [a site](https://example.com/).
"""


@pytest.mark.parametrize("repository", ["", "https://code.example/wakeboard"])
def test_artifacts_name_the_repository_if_it_has_an_address(tmp_path: Path, repository: str) -> None:
    source = replace(SOURCE, repository=repository)
    build([each for each in ARTIFACTS if each.name in {"chart", "npm"}], source, tmp_path)
    release = Distribution.read(tmp_path)
    unpack(release.file("npm"), tmp_path / "npm-files")
    package = json.loads((tmp_path / "npm-files/package/package.json").read_text())
    unpack(release.file("chart"), tmp_path / "chart-files")
    chart = yaml.safe_load((tmp_path / "chart-files/wakeboard/Chart.yaml").read_text())
    (rules,) = alerts_of(rendered({"monitoring": {"rules": {"enabled": True}}}, chart=release.file("chart")))
    runbooks = {rule["annotations"].get("runbook_url", "") for rule in rules["groups"][0]["rules"]}
    plugin = krew_manifest({("linux", "amd64"): release.file("npm")}, repository)
    labels = image_labels(source)
    if repository:
        assert package["repository"]["url"] == f"git+{repository}.git"
        assert (chart["home"], chart["sources"]) == (repository, [repository])
        assert f"{repository}/blob/v0.1.0/docs/troubleshooting.md#no-worker-seen" in runbooks
        assert labels["org.opencontainers.image.source"] == repository
        assert f"uri: {repository}/releases/download/v0.1.0/{release.file('npm').name}" in plugin
    else:
        assert not {"repository", "home", "sources"} & {*package, *chart}
        assert runbooks == {""}
        assert len(labels) == 2
        assert "uri: https://example.com/wakeboard/" in plugin


def test_every_artifact_is_documented_and_proven() -> None:
    page = (ROOT / "docs/releasing.md").read_text()
    assert [each.name for each in ARTIFACTS] == re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    assert {each.name for each in ARTIFACTS} == {name for step in STEPS for name in step.proves}


def test_manifest_and_checksums_name_every_file_and_stay_the_same(tmp_path: Path) -> None:
    built = [tmp_path / "first", tmp_path / "second"]
    for folder in built:
        folder.mkdir()
        build(FAST, SOURCE, folder)
    contents = [{name: (folder / name).read_bytes() for name in files_of(folder)} for folder in built]
    assert contents[0] == contents[1]
    release = Distribution.read(built[0])
    assert (release.version, release.manifest["commit"], release.manifest["tag"]) == ("0.1.0", "c0ffee", "v0.1.0")
    assert release.check_files() == f"{len(contents[0]) - 1} files"
    release.file("crds").write_text("changed")
    with pytest.raises(Failed, match=r"crds/jobschedules.wakeboard.dev.yaml"):
        release.check_files()


def test_an_archive_depends_on_its_content_alone(tmp_path: Path) -> None:
    for name, order in (("first", "ab"), ("second", "ba")):
        (tmp_path / name).mkdir()
        for file in order:
            (tmp_path / name / file).write_text(file)
        pack_folder(tmp_path / name, tmp_path / f"{name}.tgz", SOURCE.time)
    assert (tmp_path / "first.tgz").read_bytes() == (tmp_path / "second.tgz").read_bytes()


def test_the_go_module_has_the_layout_and_the_hash_of_a_proxy(tmp_path: Path) -> None:
    facts = write_module(tmp_path, GO, "v0.1.0", SOURCE.date)
    place = tmp_path / "example.dev/m/@v"
    assert json.loads((place / "v0.1.0.info").read_text()) == {"Version": "v0.1.0", "Time": "2026-11-28T00:34:09Z"}
    assert (place / "v0.1.0.mod").read_bytes() == GO["go.mod"]
    with zipfile.ZipFile(place / "v0.1.0.zip") as archive:
        assert archive.namelist() == [f"example.dev/m@v0.1.0/{name}" for name in sorted(GO)]
    # The sum is what `go mod download -json` computed.
    assert facts["go.sum"] == "example.dev/m v0.1.0 h1:VPMabDfu2BZPLF7T6ebCd7PsjSX7R5D9DGr2VtdKUIo="


def test_go_takes_no_nested_modules_and_no_names_that_some_system_lacks(tmp_path: Path) -> None:
    names = ["go.mod", "a.go", "b/go.mod", "b/b.go", "bc/c.go", "vendor/x/x.go", "vendor.go"]
    assert of_module(names) == ["a.go", "bc/c.go", "go.mod", "vendor.go"]
    for name in ("A.go", "aux.txt", "a:b.go", "dot."):
        with pytest.raises(Refused, match=re.escape(name)):
            write_module(tmp_path, {**GO, name: b""}, "v0.1.0", SOURCE.date)


def test_release_notes_are_the_section_of_the_version() -> None:
    assert release_notes(CHANGELOG, "0.1.0", released=True) == (
        "# wakeboard 0.1.0\n\n- First, see [a site](https://example.com/).\n"
    )
    assert release_notes(CHANGELOG, "0.2.0", released=False) == "# wakeboard 0.2.0\n\n- Next. (docs/a.md)\n"
    with pytest.raises(NoNotes, match=r"rename \[Unreleased\]"):
        release_notes(CHANGELOG, "0.2.0", released=True)


def archive_of_a_site(folder: Path, version: str) -> Path:
    (folder / version / version).mkdir(parents=True)
    for name in ("index.html", f"only-in-{version}.html", VERSIONS):
        (folder / version / version / name).write_text(version)
    pack_folder(folder / version, folder / f"{version}.tar.gz", SOURCE.time)
    return folder / f"{version}.tar.gz"


def test_a_patch_of_an_older_version_leaves_the_newest_in_front(tmp_path: Path) -> None:
    published = tmp_path / "published"
    for version in ("0.9.0", "0.10.0", "0.11.0-rc1", "0.9.1", "0.9.1"):
        found = add_sites(published, [archive_of_a_site(tmp_path / f"{version}-{time.time_ns()}", version)])
    assert found == ["0.11.0-rc1", "0.10.0", "0.9.1", "0.9.0"]
    index = (published / "index.html").read_text()
    assert 'content="0; url=0.10.0/index.html"' in index
    assert re.findall(r'href="(.+)/index.html"', index) == found
    listed = json.loads((published / "0.9.0" / VERSIONS).read_text().partition("=")[2])
    assert (listed["current"], listed["newest"]) == ("0.9.0", "0.10.0")
    lacks = ["only-in-0.9.0.html"]
    assert listed["all"] == [{"name": name, "lacks": lacks if name != "0.9.0" else []} for name in found]


def test_only_a_tagged_clean_commit_is_fit_to_be_published() -> None:
    assert SOURCE.unfit == ""
    assert "no tag v0.1.0" in str(replace(SOURCE, tag=""))
    assert "not committed" in str(replace(SOURCE, modified=True))


def test_a_new_version_is_written_first_and_changes_no_promise() -> None:
    assert list(GENERATED)[: len(FILES)] == list(FILES)
    for name in FILES:
        text = (ROOT / name).read_text()
        assert (new := stamped(text, "9.8.7-rc6")) != text, name
        assert stamped(new, wakeboard.__version__) == text, name
    promises = "migrated in one step from any release since 0.1.0", "migrations from 0.1.0 on", "since 0.1.0"
    assert [stamped(promise, "9.8.7") for promise in promises] == list(promises)


def test_the_plugins_page_says_how_krew_completes() -> None:
    assert COMPLETION in (ROOT / "docs/kubectl.md").read_text()


def test_tags_that_begin_with_v_name_the_version() -> None:
    assert tag_problem("v0.1.0", "0.1.0") == ""
    for tag, said in (
        ("vNext", "no version"),
        ("v1", "no version"),
        ("v0.1.0-next", "no version"),
        ("v0.2.0", "0.1.0"),
    ):
        assert said in tag_problem(tag, "0.1.0"), tag


def test_only_a_folder_with_a_release_alone_is_replaced(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    for folder in (ours, other):
        folder.mkdir()
        assert replaceable(folder)
    build(FAST, SOURCE, ours)
    assert replaceable(ours)
    (other / "manifest.json").write_text('{"name": "a browser extension"}')
    assert not replaceable(other)
    (ours / "notes").mkdir()
    (ours / "notes/letter.txt").write_text("kept nowhere else")
    assert not replaceable(ours)


def test_a_step_fails_and_names_what_is_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(FAST, SOURCE, tmp_path)
    release = Distribution.read(tmp_path)
    unproven = [step for step in STEPS if not set(step.proves) <= release.artifacts.keys()]
    assert not any(succeeds(step, release) for step in unproven)
    assert "has no wheel, sdist" in capsys.readouterr().out


def test_the_job_that_attests_runs_no_code_of_others() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    attesting = [job for job in jobs.values() if job["permissions"].get("id-token")]
    commands = [step["run"] for job in attesting for step in job["steps"] if "run" in step]
    assert (len(attesting), commands) == (1, ["cd dist && sha256sum --check --strict SHA256SUMS"])
    for job in jobs.values():
        assert set(job["permissions"]) == ({"contents"} if job not in attesting else {"id-token", "attestations"})


def test_workflows_name_actions_by_commit() -> None:
    used = re.findall(r"uses: (\S+)(.*)", "".join(file.read_text() for file in (ROOT / ".github/workflows").iterdir()))
    assert used
    for action, version in used:
        assert re.fullmatch(r"[\w/.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", version), action


@pytest.mark.release
@pytest.mark.timeout(1500)  # on a busy machine
def test_everything_built_twice_has_the_same_bytes(tmp_path: Path) -> None:
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        build(ARTIFACTS, replace(SOURCE, tag=""), folder)
    first, second = (Distribution.read(tmp_path / name).manifest for name in ("first", "second"))
    assert first == second
