"""The variables that the engine, the program and the stand-ins run with. Pure.

What a user has set for an engine, a cluster or an account of their own must not reach this one: it would take another
backend, another passphrase or other config, and the stand-ins another server.
"""

import os
from collections.abc import Mapping
from typing import Final

from tools.engine import layout

FOREIGN_PREFIXES: Final = ("PULUMI_", "AWS_")
# Without bytecode every start of the program would compile the SDKs anew, which takes seconds.
FOREIGN: Final = frozenset({"KUBECONFIG", "PYTHONDONTWRITEBYTECODE"})
PASSPHRASE: Final = "local"  # noqa: S105 - guards nothing: the state is on this computer, beside what it describes


def of_run(files: layout.Layout, surroundings: Mapping[str, str], inherited: Mapping[str, str]) -> dict[str, str]:
    """Lay ours over those of the surroundings, and these over what is harmless of the inherited ones."""
    harmless = {name: value for name, value in inherited.items() if not _is_foreign(name)}
    variables = harmless | dict(surroundings)
    return variables | {
        "PATH": os.pathsep.join((str(files.binaries), variables.get("PATH", os.defpath))),
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_HOME": str(files.home),
        "PULUMI_BACKEND_URL": f"file://{files.backend}",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_DEBUG_COMMANDS": "true",  # unlocks --event-log
        "PULUMI_OPTION_COLOR": "never",
    }


def _is_foreign(name: str) -> bool:
    return name in FOREIGN or name.startswith(FOREIGN_PREFIXES)
