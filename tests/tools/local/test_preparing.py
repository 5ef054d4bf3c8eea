"""The files of a plane before its first process starts."""

from pathlib import Path

from tests.tools.local import builders
from tools.local import kubeconfig, preparing
from tools.local.components import Component, Options


def test_a_blueprint_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    options = Options(components=frozenset({Component.ETCD, Component.MOTO}), audit=True, boot_seconds=2.5)
    want = builders.blueprint(options, root=tmp_path)
    assert preparing.decode(preparing.encode(want), tmp_path) == want


def test_a_directory_is_prepared_with_everything_the_components_are_told_to_read(tmp_path: Path) -> None:
    blueprint = builders.blueprint(root=tmp_path)
    preparing.prepare(blueprint)
    assert preparing.read_blueprint(tmp_path) == blueprint
    assert kubeconfig.read(blueprint.paths.kubeconfig).server == "https://127.0.0.1:20003"
    for component in set(Component) - {Component.ETCD, Component.API_SERVER, Component.MOTO}:
        assert blueprint.paths.component_kubeconfig(component).exists()
    assert blueprint.paths.audit_policy.exists()


def test_logs_of_an_earlier_plane_are_not_taken_for_ours(tmp_path: Path) -> None:
    blueprint = builders.blueprint(root=tmp_path)
    blueprint.paths.logs.mkdir()
    blueprint.paths.log(Component.ETCD).write_text("bind: address already in use")
    preparing.prepare(blueprint)
    assert list(blueprint.paths.logs.iterdir()) == []
