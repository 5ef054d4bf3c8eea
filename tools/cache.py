"""Where things that outlive a checkout are kept: built programs and the registry of running planes."""

from collections.abc import Mapping
from pathlib import Path


def directory(environment: Mapping[str, str]) -> Path:
    """Return the cache directory: `SLUICE_CACHE`, else `sluice` in the user's cache directory."""
    if chosen := environment.get("SLUICE_CACHE"):
        return Path(chosen).expanduser().absolute()
    if user_cache := environment.get("XDG_CACHE_HOME"):
        return Path(user_cache) / "sluice"
    return Path.home() / ".cache" / "sluice"
