"""What users install: the wheel's content, its metadata, its types, and that the files around it agree with it.

CI builds the wheel once and names it in LOOM_WHEEL; elsewhere one is built from the source tree.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

import pytest_loom

ROOT = Path(__file__).resolve().parent.parent
DIST_INFO = f"pytest_loom-{pytest_loom.__version__}.dist-info"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel: the one that CI installed, else one built here."""
    named = os.environ.get("LOOM_WHEEL")
    if named:
        return Path(named)
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    run = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def content(wheel: Path) -> dict[str, bytes]:
    """The wheel's files by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="session")
def metadata(content: dict[str, bytes]) -> Message:
    """The wheel's METADATA."""
    return Parser().parsestr(content[f"{DIST_INFO}/METADATA"].decode())


@pytest.fixture(scope="session")
def project() -> dict[str, Any]:
    """pyproject.toml's table ``project``."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def test_the_wheel_holds_the_package_and_nothing_else(content: dict[str, bytes]) -> None:
    """Tests, benchmarks, examples and tools stay out; two things are at the top: the package and its metadata."""
    assert {"pytest_loom", DIST_INFO} == {name.split("/")[0] for name in content}
    suffixes = {Path(name).suffix for name in content if name.startswith("pytest_loom/")}
    page = {".j2", ".css", ".js"}  # of the HTML report
    assert suffixes == {".py", ".typed", *page}, "only Python files, py.typed and the page belong into the package"


def test_the_wheel_is_typed(content: dict[str, bytes]) -> None:
    """py.typed is there, so type checkers believe our annotations (PEP 561)."""
    assert "pytest_loom/py.typed" in content


def test_every_module_says_what_it_is_for(content: dict[str, bytes]) -> None:
    """Each module of the package begins with its docstring."""
    modules = {name: text for name, text in content.items() if name.endswith(".py")}
    assert [name for name, text in modules.items() if not text.lstrip().startswith((b'"""', b'r"""'))] == []


def test_the_entry_points(content: dict[str, bytes]) -> None:
    """The one by which pytest loads the plugin by itself, and the command line."""
    entry_points = content[f"{DIST_INFO}/entry_points.txt"].decode()
    script = "[console_scripts]\npytest-loom = pytest_loom.cli:main\n"
    assert entry_points == f"{script}\n[pytest11]\nloom = pytest_loom.plugin\n"


def test_the_metadata_says_what_is_supported(metadata: Message) -> None:
    """Name, license, the lowest Python, each Python that CI may meet, and that the package is typed."""
    assert (metadata["Name"], metadata["License-Expression"], metadata["Requires-Python"]) == (
        "pytest-loom",
        "MIT",
        ">=3.11",
    )
    classifiers = metadata.get_all("Classifier", [])
    minors = [match[1] for line in classifiers if (match := re.fullmatch(r".* Python :: (3\.\d+)", line))]
    assert minors == ["3.11", "3.12", "3.13", "3.14"]
    assert {"Framework :: Pytest", "Typing :: Typed"} <= set(classifiers)


def test_the_license_goes_along(content: dict[str, bytes]) -> None:
    """MIT asks that its text goes with every copy."""
    assert content[f"{DIST_INFO}/licenses/LICENSE"].startswith(b"MIT License")


def test_installing_it_brings_only_what_the_design_names(metadata: Message) -> None:
    """No framework and no further library becomes a dependency by accident."""
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = sorted(re.split(r"[^\w-]", line, maxsplit=1)[0] for line in required)
    assert names == ["deepdiff", "msgspec", "pluggy", "pydantic", "pytest", "syrupy"]


@pytest.mark.skipif(not (ROOT / ".ci" / "run").is_file(), reason="an sdist has no CI")
def test_extras_go_together(project: dict[str, Any]) -> None:
    """CI installs all extras at once, so no two of them ask for what excludes the other."""
    named = re.search(r'"\$LOOM_WHEEL\[([\w,-]+,[\w,-]+)\]"', (ROOT / ".ci" / "run").read_text())
    assert named is not None
    assert set(named[1].split(",")) == set(project["optional-dependencies"])


def test_one_version_everywhere(project: dict[str, Any], metadata: Message) -> None:
    """pyproject.toml, the wheel, what is installed, ``__version__`` and the newest entry of the changelog agree."""
    newest = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    versions = {
        "wheel": metadata["Version"],
        "installed": importlib.metadata.version("pytest-loom"),
        "__version__": pytest_loom.__version__,
        "changelog": newest[1],
    }
    assert dict.fromkeys(versions, project["version"]) == versions


def test_the_public_api_type_checks_as_a_user_sees_it(tmp_path: Path) -> None:
    """mypy in strict mode accepts tests/typing/api.py against the package as it is installed."""
    (tmp_path / "api.py").write_text((ROOT / "tests" / "typing" / "api.py").read_text())
    run = mypy(tmp_path, "api.py")
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_type_check_can_fail(tmp_path: Path) -> None:
    """A wrong use of the API is an error for mypy: an untyped package would pass the test above with anything."""
    (tmp_path / "wrong.py").write_text("import pytest_loom\n\npytest_loom.load_log(1).execution_id.nothing\n")
    run = mypy(tmp_path, "wrong.py")
    assert run.returncode == 1, run.stdout + run.stderr
    assert sorted(re.findall(r"\[([a-z-]+)\]$", run.stdout, re.MULTILINE)) == ["arg-type", "attr-defined"]


def test_no_file_names_the_machine_it_was_written_on(content: dict[str, bytes]) -> None:
    """No file of the repository or the wheel holds an absolute path of somebody's working folder."""
    path = "/" + "work" + "/"
    files = {name: (ROOT / name).read_bytes() for name in repository_files()}
    assert [name for name, text in (files | content).items() if path.encode() in text] == []


def mypy(folder: Path, file: str) -> subprocess.CompletedProcess[str]:
    """Check one file as a user with strict settings would, from where only the installed package can be seen."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-incremental", file]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def repository_files() -> list[str]:
    """The names of the files that belong to the repository; in a copy without git, all but caches and environments."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        names = listed.stdout.decode().split("\0")
    else:
        found = (str(file.relative_to(ROOT)) for file in ROOT.rglob("*"))
        names = [name for name in found if "cache" not in name and not name.startswith(".venv")]
    return [name for name in names if (ROOT / name).is_file()]
