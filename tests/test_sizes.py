"""Nothing outgrows what a reader can hold: a file, a function, the modules that stand side by side in a package."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 40
MODULES_MAX: Final = 15


def sources() -> Iterator[Path]:
    for package in ("autoscaler", "components"):
        yield from sorted((ROOT / package).rglob("*.py"))


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources()}
    assert {path: lines for path, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_40_lines() -> None:
    lengths = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


def test_no_package_has_more_than_15_modules_side_by_side() -> None:
    modules = Counter(str(path.parent.relative_to(ROOT)) for path in sources() if path.name != "__init__.py")
    assert {package: count for package, count in modules.items() if count > MODULES_MAX} == {}
