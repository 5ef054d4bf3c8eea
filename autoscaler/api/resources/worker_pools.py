"""WorkerPool: a queue's length becomes worker pods (seed 000)."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from autoscaler.api import names
from autoscaler.api.resources.base import (
    AGE,
    NULLABLE,
    Column,
    Conditions,
    Definition,
    Model,
    Resource,
    Rule,
    Scale,
    cel_string,
    checked,
    condition_column,
    name_rule,
    rules,
)
from autoscaler.api.resources.types import Count, DnsLabel, DnsName

_INTERVAL = "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$"
_IS_INTERVAL = f"self.matches('{_INTERVAL}') && self != '00:00:00'"
_FORM = "must be HH:MM:SS, from 00:00:01 to 23:59:59"


def _interval(value: str) -> str:
    if not re.fullmatch(_INTERVAL, value) or value == "00:00:00":
        raise ValueError(_FORM)
    return value


Interval = Annotated[
    str,
    Field(max_length=64, json_schema_extra=rules(Rule(expression=_IS_INTERVAL, message=_FORM))),
    AfterValidator(_interval),
]
"""How often something is done, as HH:MM:SS."""
IdleTimeoutMinutes = Annotated[int, Field(ge=1, le=525_600)]
"""For how long a worker may find no job."""

_URL = r"^[Hh][Tt][Tt][Pp][Ss]?://([^/?#@]*@)?([^\[\]/?#:@]+|\[[0-9a-fA-F:.]+\])(:[1-9][0-9]{0,4})?([/?#].*)?$"
"""An absolute URL with a host, and a port that can be one. A user name is refused by a rule of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """Demands a form of a text, by a rule of the API server and of whoever reads the text here."""

    pattern: str
    but_not: str | None = None
    message: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        exception = "" if self.but_not is None else f" && !self.matches('{self.but_not}')"
        expression = f"self.matches({cel_string(self.pattern)}){exception}"
        return {**handler(schema), **rules(Rule(expression=expression, message=self.message))}

    def _checked(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text) or (self.but_not and re.fullmatch(self.but_not, text)):
            raise ValueError(self.message)
        return text


HeaderName = Annotated[
    str,
    Field(min_length=1, max_length=128),
    _Form(
        pattern="^[A-Za-z0-9!#$%&'*+.^_`|~-]+$",
        but_not="(?i)^(connection|content-length|expect|host|te|trailer|transfer-encoding|upgrade)$",
        message="must be the name of an HTTP header such as X-Api-Key,"
        " and none of those that say how a request is sent",
    ),
]
HeaderFormat = Annotated[
    str,
    Field(min_length=1, max_length=256),
    _Form(
        pattern=r"^[ -~]*\{key\}[ -~]*$",
        message="must be one line of printable ASCII with {key} in it, such as Bearer {key}",
    ),
]
FieldPath = Annotated[
    str,
    Field(min_length=1, max_length=256),
    _Form(pattern=r"^[^.]+(\.[^.]+)*$", message="must be names with dots between them, such as queue.length"),
]


def _for_http(field: str) -> Rule:
    return Rule(
        expression=f"self.type == 'http' || !has(self.{field})",
        message=f"{field} must be left out where type is not http",
        field=f".{field}",
    )


class SourceType(StrEnum):
    HTTP = "http"
    SQS = "sqs"
    PROMETHEUS = "prometheus"


class PoolStatus(StrEnum):
    ACTIVE = "Active"
    PAUSED = "Paused"
    SHUTDOWN = "Shutdown"


class TemplateKind(StrEnum):
    DEPLOYMENT = "Deployment"


class QueueSource(Model):
    """Where the number of waiting jobs comes from."""

    model_config = checked(
        Rule(
            expression="(self.type == 'prometheus') == has(self.query)",
            message="query must be given where type is prometheus, and left out otherwise",
            field=".query",
        ),
        *(_for_http(field) for field in ("header", "headerFormat", "field")),
    )

    type: SourceType = SourceType.HTTP
    """How the queue is asked: `http` reads a number from a URL, `sqs` asks Amazon SQS, `prometheus` runs a query."""
    endpoint: Annotated[
        str,
        Field(
            min_length=1,
            max_length=2048,
            json_schema_extra=rules(
                Rule(
                    expression=f"isURL(self) && self.matches({cel_string(_URL)})",
                    message="must be a URL such as https://web-server/api/job/peek_queue",
                ),
                Rule(
                    expression="!self.matches('^[A-Za-z]+://[^/?#]*@')",
                    message="must not hold a user name or password: credentials belong into the Secret of secretName",
                ),
            ),
        ),
    ]
    """URL of the job queue: the page that tells its length, the SQS queue, or the Prometheus server.
    A host without dots is a Service in the pool's own namespace."""
    secret_name: DnsName | None = None
    """Secret in the pool's namespace whose key `ApiKey` is sent with each request. Absent: no credentials are sent.
    Its key `ca.crt`, if there is one, holds the certificates that an https server is checked against, instead of the
    well-known authorities. For type sqs, `ApiKey` is the secret access key, `AccessKeyId` the access key that belongs
    to it, and `SessionToken` goes with temporary ones; absent: the runtime asks with its own role."""
    header: HeaderName | None = None
    """The HTTP header that carries the key. For type http only. Default: Authorization."""
    header_format: HeaderFormat | None = None
    """What stands in that header, with `{key}` in the place of the key. For type http only. Default: Apikey {key}."""
    field: FieldPath | None = None
    """Where in a JSON answer the number stands: names, and places in lists counted from 0, with dots between them.
    For type http only. Absent: the whole answer is the number."""
    query: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """The instant query whose single value is the queue's length. For type prometheus only."""


class Queue(Model):
    """How the operator learns of waiting jobs."""

    interval: Interval
    """How often the queue is asked, as HH:MM:SS: 00:00:10 is every ten seconds."""
    source: QueueSource


class TemplateSource(Model):
    """The object in the pool's namespace whose pod template workers copy."""

    kind: TemplateKind = TemplateKind.DEPLOYMENT
    """What kind of object it is. Only Deployment is supported."""
    name: DnsName
    """Its name. It may have 0 replicas: then all workers come from the pool."""


class PodTemplate(Model):
    """What worker pods look like."""

    source: TemplateSource
    container_name: DnsLabel
    """The container of that template which does the work. It alone receives the idle timeout and the pool's name."""


class WorkerSpec(Model):
    """How workers are made and kept."""

    idle_timeout_minutes: IdleTimeoutMinutes
    """A worker that found no job for this many minutes exits by itself. At least 1."""
    pod_template: PodTemplate
    retain_failed_workers: bool = False
    """Keep failed worker pods for inspection. They count against the pool's capacity until you delete them."""
    failed_workers_limit: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """With retainFailedWorkers: keep at most this many failed workers, and remove the oldest beyond it.
    Absent: all of them stay."""
    start_timeout_minutes: Annotated[int, Field(ge=1, le=525_600)] = 15
    """A worker that has a node and has not started after this many minutes, image pulls and init containers
    included, is replaced. Workers that wait for a node are left alone."""


class WorkerPoolSpec(Model):
    """What you want of this pool."""

    worker_pool_class_name: Annotated[DnsName, Field(json_schema_extra=NULLABLE)] | None = None
    """The class of the operator that handles this pool. Absent or null: the default operator does."""
    pool_capacity: Count
    """The most worker pods this pool may have at once, failed ones included. 0 is legal.
    Lowering it below the present number kills nobody."""
    queue: Queue
    status: PoolStatus = PoolStatus.ACTIVE
    """Active follows the queue. Paused asks the queue, creates nothing and leaves workers alone.
    Shutdown asks nothing and removes all workers."""
    worker_spec: WorkerSpec


class WorkerPoolStatus(Model):
    """What the operator last saw and did."""

    current_capacity: Count | None = None
    """How many more workers this pool could have now; never negative."""
    failed_workers: Count | None = None
    """How many worker pods have failed."""
    managed_by: Annotated[str, Field(max_length=253)] | None = None
    """The operator that handles this pool."""
    pending_workers: Count | None = None
    """How many worker pods do not run yet."""
    queue_endpoint: Annotated[str, Field(max_length=2048)] | None = None
    """The endpoint that was asked, the same as in the spec."""
    queue_size: Count | None = None
    """How many jobs waited when the queue was last read. Kept as it was while the queue cannot be read.
    0 while the pool is shut down, since nobody reads it then."""
    running_workers: Count | None = None
    """How many worker pods run."""
    workers: Count | None = None
    """How many worker pods there are in all (for the scale subresource)."""
    selector: Annotated[str, Field(max_length=512)] | None = None
    """Selects this pool's worker pods (for the scale subresource)."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec that was last acted on."""
    conditions: Conditions = ()
    """Details, with reasons."""


class WorkerPool(Resource):
    """A pool of worker pods that grows with a job queue. Workers leave by themselves when they find no work."""

    definition: ClassVar[Definition] = Definition(
        plural="workerpools",
        short_names=("wp",),
        namespaced=True,
        columns=(
            Column(name="RunningWorkers", path=".status.runningWorkers", type="integer"),
            Column(name="PendingWorkers", path=".status.pendingWorkers", type="integer"),
            Column(name="QueueSize", path=".status.queueSize", type="integer"),
            Column(name="CurrentCapacity", path=".status.currentCapacity", type="integer"),
            Column(name="WorkerPoolClassName", path=".spec.workerPoolClassName"),
            Column(name="Status", path=".spec.status"),
            Column(name="PoolCapacity", path=".spec.poolCapacity", type="integer"),
            Column(name="Interval", path=".spec.queue.interval"),
            Column(name="ApiRoot", path=".spec.queue.source.endpoint"),
            condition_column("Ready"),
            AGE,
        ),
        rules=(name_rule(names.WORKER_POOL_MAX, "workers are named <pool>-<random> and labelled with it"),),
        scale=Scale(spec_replicas=".spec.poolCapacity", status_replicas=".status.workers", selector=".status.selector"),
    )

    spec: WorkerPoolSpec
    status: WorkerPoolStatus = WorkerPoolStatus()
