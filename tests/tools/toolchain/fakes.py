"""Programs made of a few lines of shell, so that finding and building are tested without Go and without waiting."""

from pathlib import Path

from tools.toolchain import finding, products


def program(directory: Path, name: str, says: str, *, code: int = 0) -> Path:
    """Write an executable that prints something whatever it is asked."""
    return script(directory, name, f"cat <<'END'\n{says}\nEND\nexit {code}")


def script(directory: Path, name: str, lines: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def environment(root: Path, **more: str) -> dict[str, str]:
    """Return variables under which nothing is found but what a test put there, besides a shell's own commands."""
    return {"SLUICE_CACHE": str(root / "cache"), "PATH": "/usr/bin:/bin", **more}


def pinned(product: str) -> str:
    return recipe(product).version


def recipe(product: str) -> products.Recipe:
    known = next(known for known in products.PRODUCTS if known.name == product)
    return products.recipe(known, finding.host_platform())
