"""`python -m tools.engine.providers NAME`: serve a stand-in; only the engine starts this, several times in each run.

So it is quick about it: of the SDK it imports the protocol's messages, and of the stand-ins the one that is wanted.
"""

import importlib.util
import sys
import types
from typing import TYPE_CHECKING

from tools.engine import layout
from tools.engine.providers import calls, journal, recorder

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def main(name: str) -> None:
    _spare_the_sdk()
    from pulumi.runtime.proto import provider_pb2_grpc  # noqa: PLC0415

    from tools.engine import plugin  # noqa: PLC0415
    from tools.engine.providers import server  # noqa: PLC0415

    files = layout.of_process()
    book = journal.Journal(files.journal, name)
    servicer = server.Servicer(stand_in(name, files, book), book, journal.Faults(path=files.faults))
    plugin.serve(lambda served: provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, served))


def stand_in(name: str, files: layout.Layout, book: journal.Journal) -> calls.Provider:
    """Make the stand-in of that name."""
    version = layout.versions()[name]
    store = recorder.Recorder(directory=files.recorded / name)
    match name:
        case "kubernetes":
            from tools.engine.providers.kubernetes import provider as kubernetes  # noqa: PLC0415

            return kubernetes.Kubernetes(version, book)
        case "aws":
            from tools.engine.providers.aws import provider as aws  # noqa: PLC0415

            return aws.Aws(version, book, store, files.clusters)
        case "docker-build":
            from tools.engine.providers import docker_build  # noqa: PLC0415

            return docker_build.DockerBuild(version, store)
        case _:
            raise SystemExit(f"there is no stand-in for {name}")


def _spare_the_sdk() -> None:
    """Put empty packages in place of `pulumi` and `pulumi.runtime`, whose own code would import the whole SDK."""
    spec: ModuleSpec | None = importlib.util.find_spec("pulumi")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for name, path in (("pulumi", place), ("pulumi.runtime", f"{place}/runtime")):
            package = types.ModuleType(name)
            package.__path__ = [path]
            sys.modules[name] = package


if __name__ == "__main__":
    main(sys.argv[1])
