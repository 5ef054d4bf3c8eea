"""Pins are read from go.mod, and the key of a build follows all that goes into it."""

import dataclasses

import pytest

from tools.toolchain import products

GO_MOD = """\
module sluice.dev/tools/example

require example.org/one v1.2.3

require (
\texample.org/one/more v9.9.9 // indirect
\texample.org/two v0.4.0-rc.1 // indirect
)

replace example.org/three => example.org/three v7.0.0
"""
PRODUCT = products.Product(
    name="example",
    module="example.org/one",
    programs=(products.Program(name="one", package="example.org/one/cmd/one"),),
    ldflags=("-s", "-X main.version=v{version}", "-X main.short={major}.{minor}"),
    tags=("fast", "small"),
)
RECIPE = products.Recipe(product=PRODUCT, go_mod=GO_MOD, go_sum="sums", platform="linux/amd64")


@pytest.mark.parametrize(("module", "want"), [("example.org/one", "1.2.3"), ("example.org/two", "0.4.0-rc.1")])
def test_the_version_is_read_from_go_mod(module: str, want: str) -> None:
    assert products.pinned_version(GO_MOD, module) == want


@pytest.mark.parametrize("module", ["example.org/three", "example.org/on", "org/one"])
def test_a_module_that_is_not_required_has_no_version(module: str) -> None:
    with pytest.raises(LookupError, match=module):
        products.pinned_version(GO_MOD, module)


def test_flags_carry_the_pinned_version() -> None:
    want = ("-tags=fast,small", "-ldflags=-s -X main.version=v1.2.3 -X main.short=1.2")
    assert RECIPE.build_arguments == want


def test_the_same_recipe_has_the_same_key() -> None:
    assert RECIPE.key == dataclasses.replace(RECIPE).key
    assert RECIPE.key.startswith("example-")
    assert len(RECIPE.key) == len("example-") + 16


@pytest.mark.parametrize(
    "change",
    [
        {"go_mod": GO_MOD + "\n"},
        {"go_sum": "other sums"},
        {"platform": "linux/arm64"},
        {"product": dataclasses.replace(PRODUCT, tags=())},
        {"product": dataclasses.replace(PRODUCT, ldflags=("-w",))},
        {"product": dataclasses.replace(PRODUCT, definitions=("things.yaml",))},
    ],
)
def test_whatever_goes_into_a_build_changes_its_key(change: dict[str, str]) -> None:
    assert dataclasses.replace(RECIPE, **change).key != RECIPE.key  # type: ignore[arg-type]


@pytest.mark.parametrize("product", products.PRODUCTS, ids=lambda product: product.name)
def test_every_product_has_a_pin_and_sums(product: products.Product) -> None:
    recipe = products.recipe(product, "linux/amd64")
    assert recipe.version[0].isdigit()
    assert f"{product.module} v{recipe.version} h1:" in recipe.go_sum


@pytest.mark.parametrize("product", products.PRODUCTS, ids=lambda product: product.name)
def test_programs_built_in_one_go_are_named_as_go_names_them(product: products.Product) -> None:
    if len(product.programs) > 1:
        want = [program.package.rpartition("/")[2] for program in product.programs]
        assert [program.name for program in product.programs] == want


def test_a_program_leads_to_its_product() -> None:
    assert products.product_of("kubectl").name == "kubernetes"
    with pytest.raises(LookupError, match="there are etcd, kube-apiserver"):
        products.product_of("kubelet")
