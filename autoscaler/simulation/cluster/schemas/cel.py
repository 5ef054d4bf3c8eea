"""As much of CEL, the language of a definition's rules, as our rules use. What it cannot read is an error, not a pass.

An expression becomes a function of its variables (`self`, `oldSelf`). As in CEL, a field that is missing makes the
evaluation fail unless `has` asked for it.
"""

import functools
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final

from autoscaler.api import quantities

Scope = Mapping[str, Any]
Expression = Callable[[Scope], Any]


class CelError(Exception):
    """An expression cannot be read, or not be evaluated."""


@functools.cache
def compiled(text: str) -> Expression:
    """Read an expression."""
    parser = _Parser(text)
    expression = parser.ternary()
    parser.expect("")
    return expression


def pattern(text: str) -> re.Pattern[str]:
    """Read a regular expression as Go does, to whom `$` is the very end, not before a last line break."""
    is_anchored = text.endswith("$") and not text.endswith(r"\$")
    return re.compile(text[:-1] + r"\Z" if is_anchored else text)


def evaluate(text: str, scope: Scope) -> Any:  # noqa: ANN401 - CEL has its own types
    """Return an expression's value; raise CelError where the API server would report that it failed."""
    try:
        return compiled(text)(scope)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise CelError(f"{text}: {error!r}") from error


def _is_quantity(text: str) -> bool:
    try:
        quantities.exact(text)
    except ValueError:
        return False
    return True


_TOKEN: Final = re.compile(
    r"\s*(?:(?P<string>'(?:\\.|[^'\\])*')|(?P<number>[0-9]+)|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||[=!<>]=|[+<>!?:()\[\],.]))"
)
_RELATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "in": lambda left, right: left in right,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "size": len,
    "string": str,
    "int": int,
    "isURL": lambda text: bool(urllib.parse.urlsplit(text).scheme) or text.startswith("/"),
    "url": urllib.parse.urlsplit,
    "isQuantity": _is_quantity,
    "quantity": quantities.exact,
}
_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "size": len,
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "matches": lambda text, regex: pattern(regex).search(text) is not None,
    "split": lambda text, separator: text.split(separator),
    "substring": lambda text, start: text[start:],
    "compareTo": lambda left, right: (left > right) - (left < right),
    "getScheme": lambda url: url.scheme,
    "getHost": lambda url: url.netloc,
}
_MACROS: Final[Mapping[str, Callable[[list[Any], Callable[[Any], Any]], Any]]] = {
    "all": lambda items, holds: all(holds(item) for item in items),
    "exists": lambda items, holds: any(holds(item) for item in items),
    "exists_one": lambda items, holds: sum(bool(holds(item)) for item in items) == 1,
    "filter": lambda items, holds: [item for item in items if holds(item)],
    "map": lambda items, change: [change(item) for item in items],
}


class _Parser:
    """Reads by descent, loosest operators first."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0

    def ternary(self) -> Expression:
        condition = self._either()
        if not self._take("?"):
            return condition
        yes = self.ternary()
        self.expect(":")
        no = self.ternary()
        return lambda scope: yes(scope) if condition(scope) else no(scope)

    def expect(self, sign: str) -> None:
        if not self._take(sign):
            raise CelError(f"{self._text}: wanted {sign or 'the end'!r}, found {self._tokens[self._at]!r}")

    def _either(self) -> Expression:
        left = self._both()
        while self._take("||"):
            left = _or(left, self._both())
        return left

    def _both(self) -> Expression:
        left = self._relation()
        while self._take("&&"):
            left = _and(left, self._relation())
        return left

    def _relation(self) -> Expression:
        left = self._sum()
        while (sign := self._tokens[self._at]) in _RELATIONS:
            self._at += 1
            left = _binary(_RELATIONS[sign], left, self._sum())
        return left

    def _sum(self) -> Expression:
        left = self._unary()
        while self._take("+"):
            left = _binary(lambda one, other: one + other, left, self._unary())
        return left

    def _unary(self) -> Expression:
        if self._take("!"):
            negated = self._unary()
            return lambda scope: not negated(scope)
        return self._member(self._primary())

    def _member(self, target: Expression) -> Expression:
        """Read what follows a value: fields, indices, methods and macros."""
        while True:
            if self._take("["):
                target = _binary(lambda whole, index: whole[index], target, self.ternary())
                self.expect("]")
            elif self._take("."):
                name = self._name()
                target = self._call(target, name) if self._take("(") else _field(target, name)
            else:
                return target

    def _call(self, target: Expression, name: str) -> Expression:
        if name in _MACROS:
            return self._macro(target, name)
        if name not in _METHODS:
            raise CelError(f"{self._text}: no method {name} is known here")
        return _applied(_METHODS[name], (target, *self._arguments()))

    def _macro(self, target: Expression, name: str) -> Expression:
        variable = self._name()
        self.expect(",")
        body = self.ternary()
        self.expect(")")
        return lambda scope: _MACROS[name](target(scope), lambda item: body({**scope, variable: item}))

    def _primary(self) -> Expression:
        word = self._tokens[self._at]
        self._at += 1
        if word == "(":
            inner = self.ternary()
            self.expect(")")
            return inner
        if word == "[":
            return _applied(lambda *items: list(items), tuple(self._arguments("]")))
        if word.startswith("'"):
            text = re.sub(r"\\(.)", r"\1", word[1:-1])
            return lambda _: text
        if word.isdigit():
            number = int(word)
            return lambda _: number
        return self._named(word)

    def _named(self, name: str) -> Expression:
        if not name.isidentifier():
            raise CelError(f"{self._text}: {name!r} is no value")
        if name in {"true", "false"}:
            return lambda _: name == "true"
        if not self._take("("):
            return lambda scope: scope[name]
        if name == "has":
            return self._has()
        if name not in _FUNCTIONS:
            raise CelError(f"{self._text}: no function {name} is known here")
        return _applied(_FUNCTIONS[name], tuple(self._arguments()))

    def _has(self) -> Expression:
        """Read `has(a.b.c)`: everything up to the last field must be there, the last may be."""
        target: Expression = self._named(self._name())
        self.expect(".")
        field = self._name()
        while self._take("."):
            target, field = _field(target, field), self._name()
        self.expect(")")
        return lambda scope: field in target(scope)

    def _arguments(self, end: str = ")") -> list[Expression]:
        arguments: list[Expression] = []
        while not self._take(end):
            arguments.append(self.ternary())
            if not self._take(","):
                self.expect(end)
                break
        return arguments

    def _name(self) -> str:
        name = self._tokens[self._at]
        self._at += 1
        if not name.isidentifier():
            raise CelError(f"{self._text}: wanted a name, found {name!r}")
        return name

    def _take(self, sign: str) -> bool:
        is_next = self._tokens[self._at] == sign
        self._at += is_next
        return is_next


def _tokens(text: str) -> list[str]:
    """Cut a text into tokens; the last one is empty."""
    tokens, at = [], 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise CelError(f"{text}: cannot read from {text[at : at + 20]!r}")
        tokens.append(found[0].strip())
        at = found.end()
    return [*tokens, ""]


def _or(left: Expression, right: Expression) -> Expression:
    return lambda scope: left(scope) or right(scope)


def _and(left: Expression, right: Expression) -> Expression:
    return lambda scope: left(scope) and right(scope)


def _binary(apply: Callable[[Any, Any], Any], left: Expression, right: Expression) -> Expression:
    return lambda scope: apply(left(scope), right(scope))


def _field(target: Expression, name: str) -> Expression:
    return lambda scope: target(scope)[name]


def _applied(function: Callable[..., Any], arguments: tuple[Expression, ...]) -> Expression:
    return lambda scope: function(*(argument(scope) for argument in arguments))
