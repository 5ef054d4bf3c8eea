"""The table of products: which Go module each real part is built from, and how. Pure; versions live in go.mod alone."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

MODULES_DIRECTORY = Path(__file__).parent.parent


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One executable, its Go package and the arguments that make it print its version.

    No arguments: it cannot be asked, and is never taken from elsewhere.
    """

    name: str
    package: str
    version_arguments: tuple[str, ...] = ("--version",)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What is built in one go from one Go module; `{version}`, `{major}` and `{minor}` in ldflags stand for the pin."""

    name: str
    module: str
    programs: tuple[Program, ...]
    ldflags: tuple[str, ...] = ("-s", "-w")
    tags: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()  # files of the module that define its custom resources, kept beside the programs


def _kubernetes_version_flags() -> tuple[str, ...]:
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    values = ("gitVersion=v{version}", "gitMajor={major}", "gitMinor={minor}", "gitTreeState=clean")
    return tuple(f"-X {package}.{value}" for package in packages for value in values)


# In the order in which they are wanted: a control plane first, the Pulumi engine (the longest build) last.
PRODUCTS: tuple[Product, ...] = (
    Product(
        name="etcd",
        module="go.etcd.io/etcd/server/v3",
        programs=(Program(name="etcd", package="go.etcd.io/etcd/server/v3"),),
    ),
    Product(
        name="kubernetes",
        module="k8s.io/kubernetes",
        programs=(
            Program(name="kube-apiserver", package="k8s.io/kubernetes/cmd/kube-apiserver"),
            Program(name="kube-controller-manager", package="k8s.io/kubernetes/cmd/kube-controller-manager"),
            Program(name="kube-scheduler", package="k8s.io/kubernetes/cmd/kube-scheduler"),
            Program(name="kubectl", package="k8s.io/kubernetes/cmd/kubectl", version_arguments=("version", "--client")),
        ),
        ldflags=("-s", "-w", *_kubernetes_version_flags()),
    ),
    Product(
        name="kwok",
        module="sigs.k8s.io/kwok",
        programs=(Program(name="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),),
    ),
    Product(
        name="kuberay",
        module="github.com/ray-project/kuberay/ray-operator",
        programs=(
            Program(
                name="kuberay-operator",
                package="github.com/ray-project/kuberay/ray-operator",
                version_arguments=(),
            ),
        ),
        definitions=("config/crd/bases/ray.io_rayclusters.yaml",),
    ),
    Product(
        name="pulumi",
        module="github.com/pulumi/pulumi/pkg/v3",
        programs=(
            Program(
                name="pulumi", package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", version_arguments=("version",)
            ),
        ),
        ldflags=("-s", "-w", "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{version}"),
        tags=("osusergo", "grpcnotrace"),
    ),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A product with everything its build depends on, so that two equal recipes give the same programs."""

    product: Product
    go_mod: str
    go_sum: str
    platform: str

    @property
    def version(self) -> str:
        return pinned_version(self.go_mod, self.product.module)

    @property
    def build_arguments(self) -> tuple[str, ...]:
        major, minor, _ = self.version.split(".", 2)
        flags = (flag.format(version=self.version, major=major, minor=minor) for flag in self.product.ldflags)
        tags = (f"-tags={','.join(self.product.tags)}",) if self.product.tags else ()
        return (*tags, f"-ldflags={' '.join(flags)}")

    @property
    def key(self) -> str:
        """Name the build: the product and a hash over all that goes into it."""
        product = self.product
        ingredients = [self.go_mod, self.go_sum, self.build_arguments, self.platform, product.programs]
        ingredients += [product.definitions] if product.definitions else []
        text = json.dumps(ingredients, default=dataclasses.asdict)
        return f"{product.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def recipe(product: Product, platform: str) -> Recipe:
    """Read the product's module files."""
    directory = MODULES_DIRECTORY / product.name
    return Recipe(
        product=product,
        go_mod=(directory / "go.mod").read_text(),
        go_sum=(directory / "go.sum").read_text(),
        platform=platform,
    )


def pinned_version(go_mod: str, module: str) -> str:
    """Return the version, without its `v`, that go.mod requires of a module."""
    pin = re.search(rf"^\s*(?:require\s+)?{re.escape(module)}\s+v(\S+)", go_mod, re.MULTILINE)
    if pin is None:
        raise LookupError(f"go.mod does not require {module}; add it with `go get {module}@VERSION`")
    return pin[1]


def product_of(program: str) -> Product:
    """Return the product that a program belongs to."""
    for product in PRODUCTS:
        if any(known.name == program for known in product.programs):
            return product
    known_names = ", ".join(program_names(PRODUCTS))
    raise LookupError(f"no program called {program!r}; there are {known_names}")


def program_names(products: Sequence[Product]) -> tuple[str, ...]:
    return tuple(program.name for product in products for program in product.programs)
