"""How AWS's requests are read and its answers written. Pure.

Auto Scaling speaks the query protocol (forms in, XML out), EC2 a dialect of it, SQS JSON.
"""

import dataclasses
import json
import re
import urllib.parse
import uuid
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as ET

NAMESPACE = "http://autoscaling.amazonaws.com/doc/2011-01-01/"
XML_TYPE, JSON_TYPE = "text/xml", "application/x-amz-json-1.0"
_SCOPE = re.compile(r"Credential=[^/]+/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a client asks for."""

    service: str
    region: str
    action: str
    parameters: Mapping[str, str]

    def get(self, name: str) -> str | None:
        return self.parameters.get(name)

    def number(self, name: str) -> int | None:
        text = self.parameters.get(name)
        return None if text is None else int(text)

    def flag(self, name: str) -> bool:
        return self.parameters.get(name, "false").lower() == "true"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: bytes
    content_type: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What AWS says instead of doing it."""

    code: str
    message: str
    status: int = 400


def call_of(headers: Mapping[str, str], body: bytes) -> Call:
    """Read a request. Who signed it tells which service and region it is for."""
    scope = _SCOPE.search(headers.get("Authorization", ""))
    region, service = scope.groups() if scope else ("", "")
    target = headers.get("X-Amz-Target")
    if target is not None:
        return Call(service=service, region=region, action=target.partition(".")[2], parameters={})
    form = dict(urllib.parse.parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    return Call(service=service, region=region, action=form.get("Action", ""), parameters=form)


def form(action: str, parameters: Mapping[str, str | int]) -> bytes:
    """Write a request of the query protocol."""
    return urllib.parse.urlencode({"Action": action, "Version": "2011-01-01", **parameters}).encode()


def authorization(region: str, service: str) -> str:
    """Write as much of a signature as moto reads: it tells the service and the region by it."""
    return (
        f"AWS4-HMAC-SHA256 Credential=testing/20260101/{region}/{service}/aws4_request, "
        "SignedHeaders=host, Signature=unchecked"
    )


def refusal(service: str, said: Refusal) -> Answer:
    """Write an error as the service does."""
    if service == "sqs":
        body = json.dumps({"__type": f"com.amazonaws.sqs#{said.code}", "message": said.message}).encode()
        return Answer(status=said.status, body=body, content_type=JSON_TYPE)
    error = ET.Element("Error")
    for name, text in (("Type", "Sender"), ("Code", said.code), ("Message", said.message)):
        if not (service == "ec2" and name == "Type"):
            ET.SubElement(error, name).text = text
    if service == "ec2":
        root = ET.Element("Response")
        ET.SubElement(root, "Errors").append(error)
        ET.SubElement(root, "RequestID").text = str(uuid.uuid4())
    else:
        root = ET.Element("ErrorResponse")
        root.append(error)
        ET.SubElement(root, "RequestId").text = str(uuid.uuid4())
    return Answer(status=said.status, body=ET.tostring(root), content_type=XML_TYPE)


def answer(action: str, result: ET.Element | None = None) -> Answer:
    """Write an answer of Auto Scaling."""
    root = ET.Element(f"{action}Response", {"xmlns": NAMESPACE})
    if result is not None:
        root.append(result)
    metadata = ET.SubElement(root, "ResponseMetadata")
    ET.SubElement(metadata, "RequestId").text = str(uuid.uuid4())
    return Answer(status=200, body=ET.tostring(root), content_type=XML_TYPE)


def parse(body: bytes) -> ET.Element:
    """Read an answer, and take the namespaces off its names."""
    root = ET.fromstring(body)  # noqa: S314 - it comes from our own moto
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def written(root: ET.Element) -> bytes:
    """Write an answer that was read and changed."""
    root.set("xmlns", NAMESPACE)
    return ET.tostring(root)


def groups_of(root: ET.Element) -> list[ET.Element]:
    return root.findall("./DescribeAutoScalingGroupsResult/AutoScalingGroups/member")


def text(element: ET.Element, path: str, default: str = "") -> str:
    found = element.find(path)
    return default if found is None or found.text is None else found.text


def put(element: ET.Element, name: str, value: str) -> None:
    """Set a child's text, and make the child where there is none."""
    child = element.find(name)
    if child is None:
        child = ET.SubElement(element, name)
    child.text = value


def listed(name: str, members: Iterable[ET.Element]) -> ET.Element:
    """Write a list as the query protocol does."""
    parent = ET.Element(name)
    for member in members:
        member.tag = "member"
        parent.append(member)
    return parent
