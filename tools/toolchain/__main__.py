"""Build the real parts, say where they are, list what was found."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence

from tools.toolchain import building, finding, go, products


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    # Without this a SIGTERM would leave go running: Python ends without unwinding.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return int(options.run(options))
    except (building.BuildError, finding.NotBuiltError, go.GoError, LookupError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; run the same command again to go on", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.toolchain", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    names = [product.name for product in products.PRODUCTS]

    build = commands.add_parser(
        "build",
        help="build what is missing (all products: about 15 minutes on 2 cores, once)",
        description="Build products that are neither cached nor found in SLUICE_TOOLS or on PATH in the right version.",
    )
    build.add_argument("products", nargs="*", metavar="PRODUCT", help=f"default all: {', '.join(names)}")
    build.set_defaults(run=_build)

    path = commands.add_parser("path", help="print where a program is")
    path.add_argument("program", metavar="PROGRAM", help=", ".join(products.program_names(products.PRODUCTS)))
    path.set_defaults(run=_path)

    listing = commands.add_parser("list", help="show each program, where it is, and what was refused and why")
    listing.set_defaults(run=_list)
    return parser


def _build(options: argparse.Namespace) -> int:
    known = {product.name: product for product in products.PRODUCTS}
    unknown = sorted(set(options.products) - known.keys())
    if unknown:
        raise LookupError(f"no product called {', '.join(unknown)}; there are {', '.join(known)}")
    for name in options.products or known:
        _build_one(known[name])
    return 0


def _build_one(product: products.Product) -> None:
    searches = [finding.search(program.name, os.environ) for program in product.programs]
    if all(search.chosen for search in searches):
        places = sorted({str(search.chosen.path.parent) for search in searches if search.chosen})
        print(f"{product.name} {searches[0].wanted_version}: ready in {', '.join(places)}", flush=True)
        return
    started = time.monotonic()
    directory = building.build(product, os.environ, lambda text: print(text, flush=True))
    seconds = round(time.monotonic() - started)
    print(f"{product.name} {searches[0].wanted_version}: built in {seconds} s, in {directory}", flush=True)


def _path(options: argparse.Namespace) -> int:
    print(finding.paths([options.program], os.environ)[options.program])
    return 0


def _list(_: argparse.Namespace) -> int:
    for name in products.program_names(products.PRODUCTS):
        search = finding.search(name, os.environ)
        place = f"{search.chosen.path} ({search.chosen.origin})" if search.chosen else "missing: make tools"
        print(f"{name:<24} {search.wanted_version:<9} {place}")
        for candidate in search.candidates:
            if candidate.refusal:
                print(f"{'':<24} {'':<9} not {candidate.path} ({candidate.origin}): it {candidate.refusal}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
