"""The injection of machines (machine_injection.py) in CEL: what is looked up, and the patches that are made of it.

All patches set, or add what is not there yet: asked again after a change they end with the same pod.
"""

from typing import Final

from autoscaler.api import keys, machine_catalogue
from autoscaler.api.policies.machines import guests

_EFFECT: Final = "NoSchedule"
_NODE_AFFINITY: Final = "/spec/affinity/nodeAffinity"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _quoted(text: str) -> str:
    return f"'{text}'"


def _pointed(key: str) -> str:
    """Write a key as a part of a JSON pointer."""
    return key.replace("/", "~1")


def _add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _ensure(is_there: str, path: str, value: str) -> str:
    """Write a list of one patch that makes what others are put into, or of none where it is there."""
    return f"({is_there} ? [] : [{_add(path, value)}])"


# What is looked up


def _fact(name: str) -> str:
    return f"string(variables.data[variables.prefix + '{name}'])"


def _has_fact(name: str) -> str:
    return f"(variables.prefix + '{name}' in variables.data)"


def _toleration(key: str, value: str) -> str:
    return f"{{'key': dyn({key}), 'operator': dyn('Equal'), 'value': dyn({value}), 'effect': dyn('{_EFFECT}')}}"


def _requirement(key: str, value: str) -> str:
    return f"{{'key': dyn({key}), 'operator': dyn('In'), 'values': dyn([{value}])}}"


_GROUP: Final = "string(variables.group)"
_TYPE_LABEL: Final = f"'{keys.machine_label('')}' + string(variables.type)"
_PARENT_LABEL: Final = f"'{keys.machine_label('')}' + {_fact(machine_catalogue.PARENT)}"
_NODE_POOL: Final = (_quoted(keys.NODE_POOL), _quoted(keys.NODE_POOL_READY))
_GPU_LABEL: Final = (_fact(machine_catalogue.GPU_LABEL), _fact(machine_catalogue.GPU_VALUE))
_ALWAYS: Final = f"'cpu': {_fact(machine_catalogue.CPU)}, 'memory': {_fact(machine_catalogue.MEMORY)}"
_GPUS: Final = f"'{_pointed(keys.GPU_RESOURCE)}': {_fact(machine_catalogue.GPU)}"

VARIABLES: Final = {
    "group": guests.label(keys.MACHINE_GROUP),
    "type": guests.label(keys.MACHINE_TYPE),
    "prefix": "variables.group + '.' + variables.type + '.'",
    "data": "params.?data.orValue({})",
    "index": guests.CONTAINER_INDEX,
    "takes": f"{_has_fact(machine_catalogue.CPU)} && variables.index >= 0",
    "path": "'/spec/containers/' + string(variables.index) + '/resources'",
    "container": "object.spec.containers[variables.index]",
    "amounts": f"{_has_fact(machine_catalogue.GPU)} ? {{{_ALWAYS}, {_GPUS}}} : {{{_ALWAYS}}}",
    "tolerations": (
        f"[{_toleration(_TYPE_LABEL, _GROUP)}]"
        f" + ({_has_fact(machine_catalogue.PARENT)} ? [{_toleration(_PARENT_LABEL, _GROUP)}] : [])"
        f" + [{_toleration(*_NODE_POOL)}]"
    ),
    "requirements": (
        f"[{_requirement(_TYPE_LABEL, _GROUP)}, {_requirement(*_NODE_POOL)}]"
        f" + ({_has_fact(machine_catalogue.GPU_LABEL)} ? [{_requirement(*_GPU_LABEL)}] : [])"
    ),
    "terms": f"object.spec.?affinity.?nodeAffinity.?{_REQUIRED}.?nodeSelectorTerms.orValue([])",
}


# The patches

_ROLE_PATH: Final = _quoted(f"/metadata/labels/{_pointed(keys.POD_ROLE)}")
_ROLE: Final = f"[{_add(_ROLE_PATH, _quoted(keys.ROLE_GUEST))}]"

_GATES: Final = _quoted("/spec/schedulingGates")
_IS_GATED: Final = f"object.spec.?schedulingGates.orValue([]).exists(g, g.name == '{keys.MACHINE_GATE}')"
_NEW_GATE: Final = _add(f"{_GATES} + '/-'", f"{{'name': '{keys.MACHINE_GATE}'}}")
_GATE: Final = (
    f"{guests.NODE_NAME} != '' || {_IS_GATED} ? []"
    f" : {_ensure('has(object.spec.schedulingGates)', _GATES, '[]')} + [{_NEW_GATE}]"
)


def _amounts(part: str) -> str:
    """Write the patches of a container's requests or limits; its resources are there, if empty."""
    path, present = f"variables.path + '/{part}'", f"variables.container.resources.?{part}"
    has_gpus = f"{present}[?'{keys.GPU_RESOURCE}'].hasValue()"
    remove = f"JSONPatch{{op: 'remove', path: {path} + '/{_pointed(keys.GPU_RESOURCE)}'}}"
    amount = _add(f"{path} + '/' + k", "v")
    return (
        f"{_ensure(f'{present}.hasValue()', path, '{}')} + ({has_gpus} ? [{remove}] : [])"
        f" + variables.amounts.transformList(k, v, {amount})"
    )


_RESOURCES: Final = f"!variables.takes ? [] : {_amounts('requests')} + {_amounts('limits')}"

_TOLERATED: Final = (
    "object.spec.?tolerations.orValue([]).exists(p, p.?key.orValue('') == t.key && p.?value.orValue('') == t.value"
    f" && p.?effect.orValue('') in ['{_EFFECT}', ''])"
)
_TOLERATIONS_PATH: Final = _quoted("/spec/tolerations")
_NEW_TOLERATION: Final = _add(f"{_TOLERATIONS_PATH} + '/-'", "t")
_TOLERATIONS: Final = (
    f"!variables.takes ? [] : {_ensure('has(object.spec.tolerations)', _TOLERATIONS_PATH, '[]')}"
    f" + variables.tolerations.filter(t, !{_TOLERATED}).map(t, {_NEW_TOLERATION})"
)

_PARENTS: Final = (
    _ensure("has(object.spec.affinity)", _quoted("/spec/affinity"), "{}")
    + " + "
    + _ensure("object.spec.?affinity.?nodeAffinity.hasValue()", _quoted(_NODE_AFFINITY), "{}")
)
_FIRST_TERM: Final = _add(
    _quoted(f"{_NODE_AFFINITY}/{_REQUIRED}"), "{'nodeSelectorTerms': [{'matchExpressions': variables.requirements}]}"
)
_PRESENT: Final = "t.?matchExpressions.orValue([])"
_MISSING: Final = (
    f"variables.requirements.filter(r, !{_PRESENT}.exists(e,"
    " e.key == r.key && e.operator == r.operator && e.?values.orValue([]) == r.values))"
)
_TERM_PATH: Final = f"'{_NODE_AFFINITY}/{_REQUIRED}/nodeSelectorTerms/' + string(i) + '/matchExpressions'"
_SELECTS: Final = f"size({_PRESENT}) + size(t.?matchFields.orValue([])) > 0"
"""A term that says nothing selects no node, and stays so."""
_REQUIREMENTS: Final = (
    f"!variables.takes ? [] : size(variables.terms) == 0 ? {_PARENTS} + [{_FIRST_TERM}]"
    f" : variables.terms.transformList(i, t, {_SELECTS}, {_add(_TERM_PATH, f'{_PRESENT} + {_MISSING}')})"
)

PATCH: Final = " + ".join(f"({part})" for part in (_ROLE, _GATE, _RESOURCES, _TOLERATIONS, _REQUIREMENTS))
"""All in one: with every expression the API server reads the whole catalogue anew."""
