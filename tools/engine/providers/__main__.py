"""`python -m tools.engine.providers NAME`: serve a stand-in; only the engine starts this."""

import sys

from pulumi.runtime.proto import provider_pb2_grpc

from tools.engine import layout, plugin
from tools.engine.providers import calls, docker_build, journal, recorder, server


def main(name: str) -> None:
    files = layout.of_process()
    book = journal.Journal(files.journal, name)
    servicer = server.Servicer(stand_in(name, files, book), book, journal.Faults(path=files.faults))
    plugin.serve(lambda served: provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, served))


def stand_in(name: str, files: layout.Layout, book: journal.Journal) -> calls.Provider:
    """Make the stand-in of that name; each imports libraries that the others need not wait for."""
    version = layout.versions()[name]
    match name:
        case "kubernetes":
            from tools.engine.providers.kubernetes import provider as kubernetes  # noqa: PLC0415

            return kubernetes.Kubernetes(version, book)
        case "aws":
            from tools.engine.providers.aws import provider as aws  # noqa: PLC0415

            return aws.Aws(version, book, recorder.Recorder(directory=files.recorded / name), files.clusters)
        case "docker-build":
            return docker_build.DockerBuild(version, recorder.Recorder(directory=files.recorded / name))
        case _:
            raise SystemExit(f"there is no stand-in for {name}")


if __name__ == "__main__":
    main(sys.argv[1])
