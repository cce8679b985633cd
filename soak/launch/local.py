"""The embedded local build: what `ops/builds/local.yaml` says, which comes with soak."""

from soak.errors import BuildFileError
from soak.launch.recipe import spec_of
from soak.launch.spec import LaunchSpec
from soak.scenario import CARRIED_BUILDS, load_build
from soak.shelves import carried

LOCAL_NAME = "local"


def _local() -> LaunchSpec:
    for folder in carried(CARRIED_BUILDS):
        path = folder / f"{LOCAL_NAME}.yaml"
        if path.is_file():
            return spec_of(load_build(path))
    raise BuildFileError("soak's own local build is missing", problems=("its file is gone",), hint="install soak again")


LOCAL = _local()
