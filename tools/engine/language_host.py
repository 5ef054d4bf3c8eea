"""The Python language plugin: runs the program for the plain `pulumi` command.

Pulumi's own plugin of this name cannot be built from tagged Go modules, so this one serves the SDK's inline server
(a private name of the pinned SDK) as an executable. Whoever has Pulumi's installation needs none of it.
"""
# ruff: noqa: N802 - the protocol names the methods

import importlib.metadata
import os
import runpy
import sys
from pathlib import Path

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from tools.engine import plugin


class LanguageHost(LanguageServer):
    """Answers the engine's questions about Python programs; one program run at a time."""

    def __init__(self, engine_address: str) -> None:
        super().__init__(lambda: None)
        self._engine_address = engine_address

    def Run(self, request: language_pb2.RunRequest, context: grpc.ServicerContext) -> language_pb2.RunResponse:
        """Run the program in place: its directory is where it is imported from and where it runs."""
        program = Path(request.info.program_directory, request.info.entry_point).resolve()
        directory = program if program.is_dir() else program.parent
        request.args[:] = [self._engine_address]
        forget_modules(directory)
        os.chdir(directory)
        sys.path[:] = [str(directory), *(path for path in sys.path if path != str(directory))]
        self.program = lambda: run(program)
        answer: language_pb2.RunResponse = super().Run(request, context)  # type: ignore[no-untyped-call]
        # The error was logged on the way; told again it would fill the screen twice.
        return language_pb2.RunResponse(bail=bool(answer.error))

    def GetPluginInfo(self, request: object, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        del request, context
        return plugin_pb2.PluginInfo(version=importlib.metadata.version("pulumi"))

    def Cancel(self, request: object, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Agree; the interrupt that follows ends this process."""
        del request, context
        return empty_pb2.Empty()


def run(program: Path) -> None:
    """Run a program as `python program` would."""
    runpy.run_path(str(program), run_name="__main__")


def forget_modules(directory: Path) -> None:
    """Drop the modules of a program, so that a second run reads its files again; libraries and this package stay."""
    for name, module in list(sys.modules.items()):
        source = Path(getattr(module, "__file__", None) or "/")
        if source.is_relative_to(directory):
            parts = source.relative_to(directory).parts
            if "site-packages" not in parts and parts[0] != "tools":
                del sys.modules[name]


def main() -> None:
    host = LanguageHost(engine_address=sys.argv[-1])
    plugin.serve(lambda server: language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server))


if __name__ == "__main__":
    main()
