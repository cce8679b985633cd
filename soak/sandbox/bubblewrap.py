"""
Walls made by bubblewrap: namespaces of its own for files, processes, network, IPC and host name.

    /usr /bin /lib …   the system's, read-only          /workspace /home/agent /tmp   the place's, writable
    /etc               a few files made for it          /dev/shm                       64 MiB
    /opt               named packages                   everything else                absent, or read-only and empty

Root runs the command as a user of the sandbox's own without any capability, since the kernel exempts root from the
limit on processes; anyone else runs it in a user namespace. Limits of one process are set by util-linux's prlimit.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from soak.errors import SandboxError
from soak.sandbox.limits import Ended, Limits
from soak.sandbox.place import HOME_AT, SCRIPT_AT, TMP_AT, WORK_AT, Place, environment
from soak.sandbox.running import run_walled
from soak.sandbox.view import View

_NEEDED = ("bwrap", "prlimit", "setpriv", "bash")
_REFUSED = "commands of a model cannot be run shut away here"
_INSTALL = "install them (Debian: apt-get install bubblewrap util-linux), or configure sandbox: {kind: container}"
_ALLOW = (
    "allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0), "
    "or run as root with CAP_SYS_ADMIN, or configure sandbox: {kind: container}"
)
_SHARED_MEMORY_BYTES = 64 << 20
_ROOT_BYTES = 1 << 20
_LINKS = ("bin", "sbin", "lib", "lib64", "lib32")
_SYSTEM_FOLDERS = ("/", "/usr", "/opt", "/opt/site")
_SYSTEM_FILES = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")


class Bubblewrap:
    """Runs bash commands in one place, each in walls of its own; what they write stays in the place."""

    def __init__(self, place: Place, view: View, *, read_only: bool = False, work: Path | None = None) -> None:
        """`work` shows another folder as the repository; `read_only` lets nobody write in it."""
        self.place = place
        self._view = view
        self._read_only = read_only
        self._work = work or place.work

    @staticmethod
    def refuse_if_unusable(view: View) -> None:
        """Raise `SandboxError` if commands cannot be walled in on this machine; tries it once."""
        missing = [name for name in _NEEDED if shutil.which(name) is None]
        if missing:
            raise SandboxError(_REFUSED, why=f"not found: {', '.join(missing)}", hint=_INSTALL)
        with Place(python=view.python) as place:
            ended = Bubblewrap(place, view).run("python -c 'print(6 * 7)'", Limits(time_s=20.0))
        if ended.code != 0 or ended.output.strip() != "42":
            raise SandboxError(
                _REFUSED,
                why=f"bubblewrap was tried and ended with {ended.code} ({ended.ended}): {ended.output.strip()[-300:]}",
                hint=_ALLOW,
            )

    def run(self, command: str, limits: Limits, stopped: Callable[[], bool] = lambda: False) -> Ended:
        """Run a bash command in the repository and return how it ended; raises `SandboxError` if it cannot begin."""
        return self.run_program(self.place.bash(command), limits, stopped)

    def run_program(
        self, program: Sequence[str], limits: Limits, stopped: Callable[[], bool] = lambda: False, given: bytes = b""
    ) -> Ended:
        """Run a program with its arguments, as `run` does a command; `given` (at most 64 KiB) is its stdin."""
        command = self.command(program, limits)
        return run_walled(command, measured=self.place, limits=limits, stopped=stopped, given=given)

    def command(self, program: Sequence[str], limits: Limits) -> list[str]:
        """Return the whole command line: walls, user, limits, program."""
        return [
            _found("bwrap"),
            *_namespaces(),
            "--clearenv",
            *(word for name, value in environment().items() for word in ("--setenv", name, value)),
            *self._files(),
            *("--chdir", WORK_AT),
            "--",
            *_user(self.place.uid),
            *_process_limits(limits),
            *program,
        ]

    def _files(self) -> list[str]:
        place = self.place
        return [
            *("--size", str(_ROOT_BYTES), "--tmpfs", "/"),
            *("--ro-bind", "/usr", "/usr"),
            *_links(),
            *_folders("/etc", "/opt", "/opt/site", "/home"),
            *("--ro-bind", str(place.bin), "/opt/bin"),
            *("--ro-bind", str(place.script), SCRIPT_AT),
            *(word for name in _SYSTEM_FILES for word in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")),
            *(word for name in ("passwd", "group", "hosts") for word in _shown(place.etc / name, f"/etc/{name}")),
            *(word for source, target in self._view.mounts for word in _mounted(source, target)),
            *(word for path in self._view.masks() for word in ("--size", "4096", "--tmpfs", path)),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--size", str(_SHARED_MEMORY_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"),
            *("--remount-ro", "/dev"),
            *("--ro-bind" if self._read_only else "--bind", str(self._work), WORK_AT),
            *("--bind", str(place.home), HOME_AT),
            *("--bind", str(place.tmp), TMP_AT),
            *("--remount-ro", "/"),
        ]


def _namespaces() -> list[str]:
    own = [] if os.geteuid() == 0 else ["--unshare-user", "--disable-userns", "--uid", str(os.geteuid())]
    kinds = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    return [*own, *kinds, "--hostname", "sandbox", "--die-with-parent", "--new-session"]


def _user(uid: int) -> list[str]:
    if os.geteuid() != 0:
        return []
    return [
        _found("setpriv"),
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]


def _process_limits(limits: Limits) -> list[str]:
    return [
        _found("prlimit"),
        f"--nproc={limits.processes}",
        f"--as={2 * limits.memory_bytes}",
        f"--fsize={limits.disk_bytes}",
        "--core=0",
        "--nofile=1024",
    ]


def _links() -> list[str]:
    """Return what makes /bin and the like, which are links into /usr or folders of their own."""
    words: list[str] = []
    for name in _LINKS:
        path = Path("/") / name
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()).lstrip("/"), f"/{name}"]
        elif path.is_dir():
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    return words


def _folders(*paths: str) -> list[str]:
    return [word for path in paths for word in ("--perms", "0755", "--dir", path)]


def _mounted(source: Path, target: Path) -> list[str]:
    """Return what shows `source` at `target`, whose parents would else be shut to the sandbox's user."""
    parents = [str(parent) for parent in reversed(target.parents) if str(parent) not in _SYSTEM_FOLDERS]
    return [*_folders(*parents), *_shown(source, str(target))]


def _shown(source: Path, target: str) -> list[str]:
    return ["--ro-bind", str(source), target]


def _found(name: str) -> str:
    return shutil.which(name) or f"/usr/bin/{name}"
