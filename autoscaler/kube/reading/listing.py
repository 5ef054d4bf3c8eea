"""Read all objects of a kind as they are now, page by page: for what is not watched, or must not be a moment old."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final, TypeVar

import msgspec

from autoscaler.kube import kinds, objects, port, store, wire

PAGE: Final = 500
T = TypeVar("T")
S = TypeVar("S", bound=objects.Stored)


async def read(
    api: port.Api,
    resource: kinds.ResourceType,
    decode: Callable[[msgspec.Raw], T],
    *,
    namespace: str | None = None,
    query: Mapping[str, str] | None = None,
) -> list[T]:
    """Return all objects, or those of one namespace; none where the kind itself is not served."""
    found, _ = await _read_at(api, resource, decode, namespace=namespace, query=query)
    return found


async def read_readable(
    api: port.Api,
    resource: kinds.ResourceType,
    decode: Callable[[msgspec.Raw], T],
    *,
    namespace: str | None = None,
    query: Mapping[str, str] | None = None,
) -> tuple[list[T], int]:
    """Return the objects that make sense to us, and the version of the list; a watch tells of the others."""
    listed, version = await _read_at(api, resource, readable(decode), namespace=namespace, query=query)
    return [each for each in listed if each is not None], version


async def table(api: port.Api, resource: kinds.ResourceType, decode: Callable[[msgspec.Raw], S]) -> store.Table[S]:
    """Read a kind into a table, as if it were watched; what makes no sense to us is left out."""
    listed, version = await read_readable(api, resource, decode)
    made: store.Table[S] = store.Table()
    made.replace(listed, version)
    return made


def readable(decode: Callable[[msgspec.Raw], T]) -> Callable[[msgspec.Raw], T | None]:
    """Decode what makes sense to us; None: it does not."""

    def if_readable(raw: msgspec.Raw) -> T | None:
        try:
            return decode(raw)
        except Exception:  # noqa: BLE001  # whatever is strange about it
            return None

    return if_readable


async def pods_on(api: port.Api, node: str) -> list[objects.Pod]:
    """Read the pods of a node as the API server itself knows them now."""
    return await read(api, kinds.PODS, objects.pod, query={"fieldSelector": f"spec.nodeName={node}"})


async def pages(
    api: port.Api,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    timeout_seconds: float = port.DEFAULT_TIMEOUT_SECONDS,
) -> AsyncGenerator[wire.Listing, None]:
    """Yield a collection page by page."""
    asked = {"limit": str(PAGE), **(query or {})}
    while True:
        page = wire.LISTING.decode(await port.get(api, path, asked, timeout_seconds=timeout_seconds))
        yield page
        if not page.metadata.continue_:
            return
        asked = {**asked, "continue": page.metadata.continue_}
        await asyncio.sleep(0)  # a long list must not keep others waiting


async def _read_at(
    api: port.Api,
    resource: kinds.ResourceType,
    decode: Callable[[msgspec.Raw], T],
    *,
    namespace: str | None = None,
    query: Mapping[str, str] | None = None,
) -> tuple[list[T], int]:
    """Return all objects and the version of the list; none, and 0, where the kind itself is not served."""
    found: list[T] = []
    version = 0
    try:
        async for page in pages(api, resource.collection(namespace), query):
            found.extend(decode(item) for item in page.items)
            version = int(page.metadata.resource_version or 0)
    except port.NotFoundError:
        return [], 0
    return found, version
