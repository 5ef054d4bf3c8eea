"""The small client of the tools: answers, refusals, and connections that were closed meanwhile."""

import pytest

from tools.local import api


def test_a_success_gives_its_body() -> None:
    assert api.Response(status=201, body={"kind": "Pod"}).required() == {"kind": "Pod"}


@pytest.mark.parametrize(
    ("body", "want"),
    [({"message": "pods is forbidden"}, "403: pods is forbidden"), ("plain words", "403: plain words")],
)
def test_a_refusal_raises_with_the_servers_own_words(body: object, want: str) -> None:
    with pytest.raises(api.ApiError, match=want):
        api.Response(status=403, body=body).required()
