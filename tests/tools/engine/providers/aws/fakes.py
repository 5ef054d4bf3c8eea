"""An AWS that remembers calls and answers what it was told."""

from typing import Any

from tools.engine.providers.aws import cloud, settings


class FakeCloud(cloud.Cloud):
    """Answers each operation with a prepared value."""

    def __init__(self, answers: dict[str, dict[str, Any]]) -> None:
        self.settings = settings.Settings(region="eu-west-1", account="111122223333", default_tags={})
        self.answers = answers
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def _send(self, service: str, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        del service
        self.sent.append((operation, arguments))
        return self.answers.get(operation, {})

    @property
    def writes(self) -> list[tuple[str, dict[str, Any]]]:
        return [(name, arguments) for name, arguments in self.sent if not name.startswith("describe_")]
