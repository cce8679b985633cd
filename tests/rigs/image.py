"""
A container image like those of SWE-bench, made without a registry: a few programs of this machine and one repository.

/testbed holds a git checkout with one defect, /opt/python this interpreter with pytest. `ROW` is its row.
"""

import difflib
import importlib.util
import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from soak.errors import SandboxError
from soak.sandbox import Instance, Limits, Runtime

PROGRAMS = (
    *(
        "bash",
        "git",
        "cat",
        "sleep",
        "mkdir",
        "rm",
        "ls",
        "base64",
        "env",
        "seq",
        "dd",
        "true",
        "id",
        "head",
        "sed",
        "grep",
    ),
    *("cp", "mv", "ln", "chmod", "touch", "sort", "wc", "tail", "echo", "printf", "dirname", "pwd", "uname"),
)
PACKAGES = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
_NOT_NEEDED = frozenset(
    {"site-packages", "test", "tests", "lib2to3", "ensurepip", "tkinter", "idlelib", "_tkinter", "config-3"}
)
_SOURCE = "def inches(centimetres):\n    return centimetres * 2.54\n\n\ndef feet(inches_):\n    return inches_ / 12\n"
_TESTS = "from ruler import feet\n\n\ndef test_feet():\n    assert feet(24) == 2\n"
FILES = {"ruler.py": _SOURCE, "tests/test_ruler.py": _TESTS, "README.md": "# ruler\n", "conftest.py": ""}
MENDED = _SOURCE.replace("*", "/")
HIDDEN = _TESTS.replace("feet\n", "feet, inches\n", 1) + "\n\ndef test_inches():\n    assert inches(2.54) == 1\n"


def patch_of(name: str, before: str, after: str) -> str:
    """Return a git patch that makes `after` of the file's text."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return f"diff --git a/{name} b/{name}\n" + "".join(lines)


ROW = {
    "instance_id": "soak__ruler-1",
    "repo": "soak/ruler",
    "version": "1.0",
    "problem_statement": "inches(2.54) gives 6.4516, but two and a half centimetres are one inch.",
    "patch": patch_of("ruler.py", _SOURCE, MENDED),
    "test_patch": patch_of("tests/test_ruler.py", _TESTS, HIDDEN),
    "FAIL_TO_PASS": '["tests/test_ruler.py::test_inches"]',
    "PASS_TO_PASS": '["tests/test_ruler.py::test_feet"]',
}


def make_image(runtime: Runtime, name: str, folder: Path) -> dict[str, object]:
    """Make the image `name` and return its row; `folder` is for scratch. Skips, with the reason, where it cannot."""
    commit = _checkout(folder / "testbed")
    told = runtime.ask(
        *("import", "--change", "ENV PATH=/opt/python/bin:/usr/bin:/bin", "-", name),
        given=_archive(folder / "testbed"),
        within_s=120.0,
    )
    if told.code != 0:
        pytest.skip(f"{runtime.name} cannot make an image: {told.why}")
    limits = Limits(time_s=20.0)
    try:
        with Instance(runtime, name, limits=limits, life_s=60, work_at="/testbed") as instance:
            ended = instance.run("git status --short && python -c 'import pytest; print(6 * 7)'", limits)
    except SandboxError as error:
        pytest.skip(f"{error.what}: {error.why}")
    assert ended.output == "42\n", ended
    return {**ROW, "image": name, "base_commit": commit}


def _checkout(folder: Path) -> str:
    for name, text in FILES.items():
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text(text)
    who = ("-c", "user.name=maker", "-c", "user.email=maker@example.org")
    for words in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "--message=As it stands")):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    head = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return head.stdout.strip()


def _archive(testbed: Path) -> bytes:
    """Return the root filesystem as a tar archive, everything in it root's."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in ("tmp", "root", "etc", "proc", "sys", "dev", "usr", "usr/bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        link = tarfile.TarInfo("bin")
        link.type, link.linkname = tarfile.SYMTYPE, "usr/bin"
        archive.addfile(link)
        _put_programs(archive)
        _put_python(archive)
        archive.add(testbed, "testbed", filter=_as_root)
    return buffer.getvalue()


def _put_programs(archive: tarfile.TarFile) -> None:
    paths = {name: path for name in PROGRAMS if (path := shutil.which(name)) is not None}
    libraries = _libraries(*map(Path, paths.values())) | _python_libraries()
    for name, path in paths.items():
        archive.add(Path(path).resolve(), f"usr/bin/{name}", filter=_as_root)
    for library in libraries:
        archive.add(library.resolve(), str(library).lstrip("/"), filter=_as_root)


def _put_python(archive: tarfile.TarFile) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    archive.add(_python(), "opt/python/bin/python", filter=_as_root)
    archive.add(Path(sys.base_prefix, "lib", version), f"opt/python/lib/{version}", filter=_as_root)
    for package in PACKAGES:
        origin = Path(importlib.util.find_spec(package).origin)
        found = origin.parent if origin.name == "__init__.py" else origin
        for part in (found, *found.parent.glob(f"{package}-*.dist-info")):
            archive.add(part, f"opt/python/lib/{version}/site-packages/{part.name}", filter=_as_root)


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(entry.name).parts
    # Of the interpreter only what tests need; of its packages those put there by name.
    if parts[:2] == ("opt", "python") and len(parts) > 4 and parts[-1].partition(".")[0] in _NOT_NEEDED:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _python() -> Path:
    return Path(sys.executable).resolve()


def _python_libraries() -> set[Path]:
    modules = Path(sys.base_prefix, "lib").glob("python3*/lib-dynload/*.so")
    needed = (path for path in modules if path.name.partition(".")[0] not in _NOT_NEEDED)
    return _libraries(_python(), *needed)


def _libraries(*paths: Path) -> set[Path]:
    """Return the shared libraries that programs are linked with, the loader included."""
    told = subprocess.run(["ldd", *map(str, paths)], capture_output=True, text=True, check=False).stdout
    words = (word for line in told.splitlines() for word in line.split() if word.startswith("/"))
    return {Path(word) for word in words if Path(word).is_file()} - set(paths)
