import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
from launch_builds import gone, scripted

from soak.errors import LaunchError
from soak.launch import LOCAL, LaunchSpec, ModelSource, Packages, Progress, prepare, state_of_cache
from soak.launch.cache import MARKER, FileMark, ModelMarker, locked, write_marker
from soak.launch.model import model_folder, model_ready
from soak.launch.prepare import build_folder
from soak.launch.progress import Step

PLAIN = scripted("serve", packages=Packages(imports=("json",), absent=("no_such_module",)))

MAKER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_launch_prepare import SLEEPY
from soak.launch import prepare
prepare(SLEEPY)
"""
SLEEPY = scripted("serve", packages=Packages(bare=("sleepy==1",), imports=("sleepy",)))
SLEEPY_CODE = """
import os, signal
if "SLEEPY_PIPE" in os.environ:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(os.environ["SLEEPY_PIPE"], "w") as pipe:
        pipe.write(str(os.getpid()))
    signal.pause()
"""


class Told(list[Progress]):
    """Keeps what is reported."""

    def __call__(self, progress: Progress) -> None:
        self.append(progress)

    @property
    def steps(self) -> set[str]:
        return {progress.step for progress in self}


def wheel(folder: Path, name: str, *, requires: tuple[str, ...] = (), code: str = "") -> None:
    """Write the smallest wheel that pip and uv install."""
    info = f"{name}-1.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", code)
        needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{needs}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all pip and uv may use."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
    return folder


def test_a_build_is_made_once(cache: Path) -> None:
    """The first call makes the environment and says so; the second finds it and has nothing to say."""
    first, second = Told(), Told()
    made = prepare(PLAIN, first)
    assert first.steps == {"environment", "check"}
    assert made.python.is_file()
    assert made.folder.is_relative_to(cache / "soak" / "builds")
    assert prepare(PLAIN, second) == made
    assert second == []
    assert state_of_cache(PLAIN).ready


def test_each_step_of_making_a_build_ends_once_and_says_nothing_of_pip(cache: Path, index: Path) -> None:
    """Each step is told with its duration when it has ended, once; what pip writes is in the log and nowhere else."""
    wheel(index, "plainly")
    told = Told()
    folder = prepare(scripted("serve", packages=Packages(bare=("plainly==1",), imports=("plainly",))), told).folder
    assert [progress.step for progress in told if progress.ended] == ["environment", "engine", "requirements", "check"]
    assert {progress.detail for progress in told if progress.step == "engine"} == {"plainly==1"}
    assert "plainly" in (folder / "install.log").read_text()


@pytest.mark.parametrize("broken_off_at", ["environment", "check"])
def test_a_build_broken_off_is_repaired(cache: Path, broken_off_at: str) -> None:
    """Whatever step is broken off, the build counts as half made, and the next call makes it whole."""

    def break_off(progress: Progress) -> None:
        if progress.step == broken_off_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(PLAIN, break_off)
    state = state_of_cache(PLAIN)
    assert not state.ready
    assert "half made" in state.text
    prepare(PLAIN)
    assert state_of_cache(PLAIN).ready


@pytest.mark.parametrize("damage", ["no marker", "cut marker", "marker of another", "no python", "a package gone"])
def test_a_damaged_build_is_repaired(cache: Path, damage: str) -> None:
    """A build without its marker, with a foreign or cut one, or whose files are gone is made again."""
    folder = prepare(PLAIN).folder
    marker = folder / MARKER
    match damage:
        case "no marker":
            marker.unlink()
        case "cut marker":
            marker.write_bytes(marker.read_bytes()[:20])
        case "marker of another":
            marker.write_text('{"fingerprint":"000000000000"}')
        case "no python":
            (folder / "venv" / "bin" / "python").unlink()
        case "a package gone":
            marker.write_bytes(marker.read_bytes().replace(b'"installed":[]', b'"installed":["gone-1"]'))
    assert not state_of_cache(PLAIN).ready
    told = Told()
    prepare(PLAIN, told)
    assert "environment" in told.steps
    assert state_of_cache(PLAIN).ready


def test_rebuild_makes_it_anew(cache: Path) -> None:
    """With `rebuild` a build that lies ready is made again from nothing."""
    leftover = prepare(PLAIN).folder / "leftover"
    leftover.touch()
    prepare(PLAIN, rebuild=True)
    assert not leftover.exists()


def test_a_check_that_fails_leaves_nothing_ready(cache: Path) -> None:
    """A module that must be there and is not fails the check, names the module, and the build is not ready."""
    spec = scripted("serve", packages=Packages(imports=("no_such_module",)))
    with pytest.raises(LaunchError) as caught:
        prepare(spec)
    assert "no_such_module" in caught.value.why
    assert caught.value.log_tail
    assert not state_of_cache(spec).ready


def test_a_module_that_must_be_absent_fails_the_check(cache: Path) -> None:
    """A module that must not be there, as PyPI's torchvision beside a CPU torch, fails the check by name."""
    with pytest.raises(LaunchError) as caught:
        prepare(scripted("serve", packages=Packages(absent=("json",))))
    assert "json must not be installed" in caught.value.why


def test_too_little_disk_is_said_beforehand(cache: Path) -> None:
    """When the disk has less room than the build needs, nothing is begun and both numbers are told."""
    told = Told()
    with pytest.raises(LaunchError, match="not enough disk space") as caught:
        prepare(scripted("serve", needs_disk_bytes=2**60), told)
    assert "GiB" in caught.value.why
    assert told == []


def test_a_cache_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the cache folder should be is a launch error, not a traceback."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(LaunchError, match="cannot write"):
        prepare(PLAIN)


def test_one_makes_it_and_the_others_wait(cache: Path) -> None:
    """While another holds the lock, a call says who it waits for; when the lock is free, it goes on."""
    waiting = threading.Event()

    def report(progress: Progress) -> None:
        if progress.step == "lock":
            assert f"process {os.getpid()}" in progress.detail
            waiting.set()

    folder = build_folder(PLAIN)
    maker = threading.Thread(target=prepare, args=(PLAIN, report))
    with locked(folder.with_name(f"{folder.name}.lock"), Step("test", Told())):
        maker.start()
        assert waiting.wait(20)
        assert not state_of_cache(PLAIN).ready
    maker.join(60)
    assert state_of_cache(PLAIN).ready


def test_dependencies_come_from_the_engines_metadata(cache: Path, index: Path) -> None:
    """What the engine requires here is installed; what is dropped, or holds elsewhere only, is not."""
    requires = ("wanted>=1", "Un.wanted", "elsewhere; sys_platform == 'plan9'", "bonus; extra == 'more'")
    wheel(index, "engine", requires=requires)
    wheel(index, "wanted")
    packages = Packages(bare=("engine==1",), drop=("un-wanted",), imports=("engine", "wanted"), absent=("un_wanted",))
    made = prepare(scripted("serve", packages=packages))
    found = subprocess.run([made.python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert "wanted" in found
    assert "elsewhere" not in found
    assert "bonus" not in found


def test_pins_that_cannot_be_had_are_left_aside(cache: Path, index: Path) -> None:
    """Where the index lacks the pinned versions, the requirements are installed without the pins."""
    wheel(index, "engine", requires=("wanted>=1",))
    wheel(index, "wanted")
    packages = Packages(bare=("engine==1",), pins="wanted==7\n", imports=("wanted",))
    prepare(scripted("serve", packages=packages))


def test_a_package_that_cannot_be_had_is_an_error(cache: Path, index: Path) -> None:
    """A package that no index has is a launch error that names it."""
    with pytest.raises(LaunchError, match="nosuchengine==1") as caught:
        prepare(scripted("serve", packages=Packages(bare=("nosuchengine==1",))))
    assert caught.value.log_tail


def test_sigkill_while_it_is_made_leaves_no_process_and_no_lock(cache: Path, index: Path) -> None:
    """After SIGKILL of the maker of a build, the next call waits for the end of its helpers and repairs the build."""
    wheel(index, "sleepy", code=SLEEPY_CODE)
    pipe = index / "pipe"
    os.mkfifo(pipe)
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, str(Path(__file__).parent)], env=os.environ | {"SLEEPY_PIPE": str(pipe)}
    )
    helper = int(pipe.read_text())
    os.kill(maker.pid, signal.SIGKILL)
    maker.wait()
    assert "half made" in state_of_cache(SLEEPY).text
    told = Told()
    prepare(SLEEPY, told)
    assert "lock" in told.steps
    assert gone(helper, within_s=0.0)
    assert state_of_cache(SLEEPY).ready


SOURCE = ModelSource(name="tiny", package="tiny==1", gguf="tiny/tiny.gguf", sha256="ab" * 32)
HELLO_SHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


@pytest.fixture
def weights(cache: Path) -> Path:
    """A converted model of five bytes with its marker."""
    folder = model_folder(SOURCE)
    folder.mkdir(parents=True)
    path = folder / "model.safetensors"
    path.write_bytes(b"hello")
    mark = FileMark(sha256=HELLO_SHA256, size_bytes=5, mtime_ns=path.stat().st_mtime_ns)
    write_marker(folder / MARKER, ModelMarker(source_sha256=SOURCE.sha256, files={path.name: mark}))
    return path


def test_a_touched_model_is_hashed_again(weights: Path) -> None:
    """A model whose file has another time but the same content is ready; with other content it is not."""
    assert model_ready(SOURCE)
    os.utime(weights, ns=(1, 1))
    assert model_ready(SOURCE)
    weights.write_bytes(b"jello")
    assert not model_ready(SOURCE)


def test_a_model_that_is_cut_gone_or_another_is_not_ready(weights: Path) -> None:
    """A cut file, a file gone, and a marker for another source all mean: not ready."""
    assert not model_ready(ModelSource(name="tiny", package="", gguf="", sha256="ab" * 6 + "cd" * 26))
    weights.write_bytes(b"hell")
    assert not model_ready(SOURCE)
    shutil.rmtree(weights.parent)
    assert not model_ready(SOURCE)


def test_the_local_build_is_one_place(cache: Path) -> None:
    """The embedded build's state is told without making it; an empty cache says so and how long it takes."""
    spec: LaunchSpec = LOCAL
    state = state_of_cache(spec)
    assert not state.ready
    assert "not there" in state.text
    assert not cache.exists()
