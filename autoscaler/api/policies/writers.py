"""Only the runtime makes and deletes Workloads, deletes Instances and writes their status: they are its accounts.

Workloads go with their owners and namespaces, by the hands of Kubernetes' own controllers. An Instance has neither, and
nothing but the runtime may delete it, an administrator included: who must, deletes the binding of this policy first.
"""

from autoscaler.api import keys, version
from autoscaler.api.policies import identities
from autoscaler.api.policies.base import Operation, Request, ValidatingPolicy, Validation, ours


def policies(runtime: str) -> tuple[ValidatingPolicy, ...]:
    """Write the policies for a runtime that is this user."""
    return (
        _only(
            runtime,
            operation=Operation.CREATE,
            plural="workloads",
            message=f"only the runtime ({runtime}) creates Workloads, from jobs: give a Job or RayCluster the label"
            f" {keys.QUEUE_NAME} instead",
        ),
        _only(
            runtime,
            *identities.CONTROLLERS,
            operation=Operation.DELETE,
            plural="workloads",
            message=f"only the runtime ({runtime}) deletes Workloads, which are its account of quota in use: delete the"
            " job instead, or set spec.active of the Workload to false, which takes the job out of its queue; if the"
            " runtime cannot come back, `python -m autoscaler release --force` sets everything free",
        ),
        _only(
            runtime,
            operation=Operation.DELETE,
            plural="instances",
            message=f"only the runtime ({runtime}) deletes Instances, which are its account of what was used: to have"
            " an instance removed, drain its node; to delete the account all the same, first delete the"
            f" ValidatingAdmissionPolicyBinding {_name(Operation.DELETE, 'instances')}",
        ),
        _only(
            runtime,
            operation=Operation.UPDATE,
            plural="instances/status",
            message=f"only the runtime ({runtime}) writes what Instances say, which is its account of what was used: to"
            " correct it all the same, first delete the ValidatingAdmissionPolicyBinding"
            f" {_name(Operation.UPDATE, 'instances/status')}",
        ),
    )


def _name(operation: Operation, plural: str) -> str:
    return f"runtime-alone-{operation.lower()}s-{plural.replace('/', '-')}.{version.GROUP}"


def _only(*users: str, operation: Operation, plural: str, message: str) -> ValidatingPolicy:
    def refusal(request: Request) -> str | None:
        return None if request.username in users else message

    return ValidatingPolicy(
        name=_name(operation, plural),
        match=ours(plural, operations=(operation,)),
        validations=(Validation(expression=identities.is_one_of(users), message=message),),
        twin=refusal,
    )
