"""A small, bounded part of Python, walked as a syntax tree and never evaluated by Python.

Models that act by code write straight lines, loops over known ranges and little arithmetic. That is all there is here:
imports of the host's modules, calls of the host's functions, literals, variables, `+ - * / // %`, `for` over ranges and
lists, `with` for the host's context managers, and the words that the host declares. Everything else is refused by name
and line. Nothing can be reached but the host's own functions, and steps, sizes and depth are bounded.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sandbox.actions import MAX_TEXT
from sandbox.dialects.protocol import Rejected, explain

__all__ = ["Host", "Ref", "Value", "parse_code", "run"]

MAX_TOKENS = 4_000
MAX_STEPS = 10_000
MAX_DEPTH = 60
MAX_ITEMS = 1_000
MAX_NUMBER = 10**9


@dataclass(frozen=True, slots=True)
class Ref:
    """A module or a function of the host, by its dotted name."""

    name: str


Value: TypeAlias = "int | float | str | bool | Ref | range | tuple[Value, ...] | None"
"""Lists are tuples here: nothing can change them."""


class Host(Protocol):
    """What the code can reach."""

    modules: Sequence[str]
    """Names of the modules; each is there without an import, too."""
    bare: Sequence[str]
    """Those whose functions are known by their names alone, without an import."""
    constants: Mapping[str, Value]
    """Values of dotted names."""
    settings: frozenset[str]
    """Dotted names that may be assigned to, to no effect."""
    ignored_arguments: frozenset[str]
    """Keyword arguments whose values are not even looked at."""
    contexts: frozenset[str]
    """Dotted names of functions for `with`."""
    harmless: frozenset[str]
    """Dotted names of functions without effect, which a `print` may contain."""

    def has(self, function: str) -> bool:
        """Whether a dotted name is a function."""
        ...

    def call(self, function: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        """Do it. Raises ValueError to refuse."""
        ...

    def enter(self, function: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> None:
        """The start of a `with`. Raises ValueError to refuse."""
        ...

    def leave(self) -> None:
        """The end of the innermost `with`."""
        ...

    def word(self, word: str) -> bool:
        """A bare name that stands as a statement: whether it means something; if so, it is done."""
        ...


def parse_code(source: str) -> ast.Module:
    """Parse Python.

    Raises:
        SyntaxError: it is not Python, or too long or nested too deeply to read.
    """
    if sum(1 for _ in itertools.islice(_TOKENS.finditer(source), MAX_TOKENS + 1)) > MAX_TOKENS:
        raise SyntaxError(f"it is longer than {MAX_TOKENS} words and signs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dubious escapes such as "\d" are valid, and they are the model's
        try:
            return ast.parse(source)
        except (ValueError, RecursionError, MemoryError) as error:  # NUL bytes, lone surrogates, absurd nesting
            raise SyntaxError("characters that Python cannot read, or too deep nesting") from error


def run(tree: ast.Module, host: Host) -> None:
    """Walk the code and call the host.

    Raises:
        Rejected: a construct, a name, a value or a bound; `where` names the line.
    """
    _Walker(host).block(tree.body)


# Comments and strings count as one each, so that long text can be typed.
_TOKENS = re.compile(
    r"""#[^\n]*|\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'|\w+|[^\w\s]"""
)
_OPERATORS: dict[type[ast.operator], tuple[str, Callable[[float, float], float]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
_CONSTRUCTS: dict[type[ast.AST], str] = {
    ast.While: "`while`",
    ast.If: "`if`",
    ast.IfExp: "`if`",
    ast.Try: "`try`",
    ast.FunctionDef: "a function definition",
    ast.AsyncFunctionDef: "a function definition",
    ast.ClassDef: "a class definition",
    ast.Lambda: "`lambda`",
    ast.JoinedStr: "an f-string",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Dict: "a dictionary",
    ast.Set: "a set",
    ast.Compare: "a comparison",
    ast.BoolOp: "`and` / `or`",
    ast.NamedExpr: "`:=`",
    ast.Delete: "`del`",
    ast.Raise: "`raise`",
    ast.Assert: "`assert`",
    ast.Break: "`break`",
    ast.Continue: "`continue`",
    ast.Return: "`return`",
}


class _Walker:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._names: dict[str, Value] = {module: Ref(module) for module in host.modules}
        self._starred: list[str] = list(host.bare)
        self._steps = 0
        self._depth = 0

    def block(self, body: list[ast.stmt]) -> None:
        self._depth += 1
        for statement in body:
            try:
                self._tick()
                self._statement(statement)
            except Rejected as error:
                raise Rejected(error.message, where=error.where or f"line {statement.lineno}") from error
            except ValueError as error:
                raise Rejected(explain(error), where=f"line {statement.lineno}") from error
        self._depth -= 1

    def _tick(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Rejected(f"the code takes more than {MAX_STEPS} steps")
        if self._depth > MAX_DEPTH:
            raise Rejected("the code is nested too deeply")

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Call() as call):
                self._value(call)
            case ast.Expr(value=ast.Name(id=word)):
                if not self._host.word(word):
                    raise Rejected(f"{word!r} is no action")
            case ast.Expr(value=ast.Constant(value=value)):
                if isinstance(value, str):
                    self._host.word(value)
            case ast.Pass():
                pass
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.Assign(targets=targets):
                for target in targets:
                    self._assign(target, node.value)
            case ast.AugAssign(target=ast.Name(id=name) as target):
                now = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), target)
                self._names[name] = self._value(ast.BinOp(left=now, op=node.op, right=node.value))
            case ast.For(orelse=[]):
                for item in self._items(self._value(node.iter), "a for loop"):
                    self._bind(node.target, item)
                    self.block(node.body)
            case ast.With(items=[ast.withitem(context_expr=ast.Call() as call, optional_vars=None)]):
                self._with(call, node.body)
            case _:
                raise _unsupported(node.value if isinstance(node, ast.Expr) else node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        package = node.module if isinstance(node, ast.ImportFrom) else None
        for alias in node.names:
            module = package or alias.name
            if module not in self._host.modules or (isinstance(node, ast.ImportFrom) and node.level):
                raise Rejected(f"`{module}` cannot be imported; there are {', '.join(self._host.modules)}")
            if package is None:
                self._names[alias.asname or module] = Ref(module)
            elif alias.name == "*":
                self._starred.append(package)
            else:
                self._names[alias.asname or alias.name] = Ref(f"{package}.{alias.name}")

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Attribute):
            name = self._value(target)
            if not isinstance(name, Ref) or name.name not in self._host.settings:
                raise _unsupported(target, "an assignment to an attribute")
            return
        self._bind(target, self._value(value))

    def _bind(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                self._names[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                items = self._items(value, "an assignment to several names")
                if len(items) != len(targets):
                    raise Rejected(f"{len(targets)} names cannot take {len(items)} values")
                for each, item in zip(targets, items, strict=True):
                    self._bind(each, item)
            case _:
                raise _unsupported(target, "this assignment")

    def _with(self, call: ast.Call, body: list[ast.stmt]) -> None:
        function, args, kwargs = self._call_parts(call)
        if function not in self._host.contexts:
            raise Rejected(
                f"`with {function}(...)` is not supported; there is {', '.join(sorted(self._host.contexts))}"
            )
        self._host.enter(function, args, kwargs)
        self.block(body)
        self._host.leave()

    def _value(self, node: ast.expr) -> Value:
        self._depth += 1
        self._tick()
        value = self._bounded(self._evaluate(node))
        self._depth -= 1
        return value

    def _evaluate(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return value
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(value=owner, attr=attribute):
                module = self._value(owner)
                if not isinstance(module, Ref):
                    raise _unsupported(node, f"the attribute `.{attribute}`")
                name = f"{module.name}.{attribute}"
                return self._host.constants.get(name, Ref(name))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self._elements(elements)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                number = _as_number(self._value(operand), "a sign")
                return -number if isinstance(sign, ast.USub) else number
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self._value(left), self._value(right))
            case ast.Subscript(value=owner, slice=index):
                items, at = self._value(owner), self._value(index)
                if not isinstance(items, tuple) or not isinstance(at, int) or not -len(items) <= at < len(items):
                    raise _unsupported(node, "this subscript")
                return items[at]
            case ast.Call(func=ast.Name(id=name)) if name not in self._names and name in _BUILTINS:
                return self._builtin(name, node)
            case ast.Call():
                function, args, kwargs = self._call_parts(node)
                if function in self._host.contexts:
                    raise Rejected(f"{function} is written `with {function}(...):`")
                return self._host.call(function, args, kwargs)
            case _:
                raise _unsupported(node)

    def _name(self, name: str) -> Value:
        if name in self._names:
            return self._names[name]
        for package in self._starred:
            if self._host.has(f"{package}.{name}"):
                return Ref(f"{package}.{name}")
        raise Rejected(f"the name {name!r} is not known")

    def _elements(self, elements: list[ast.expr]) -> tuple[Value, ...]:
        values: list[Value] = []
        for element in elements:
            if isinstance(element, ast.Starred):
                values.extend(self._items(self._value(element.value), "`*`"))
            else:
                values.append(self._value(element))
            if len(values) > MAX_ITEMS:
                raise Rejected(f"a list has more than {MAX_ITEMS} items")
        return tuple(values)

    def _call_parts(self, call: ast.Call) -> tuple[str, tuple[Value, ...], dict[str, Value]]:
        target = self._value(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else None
        if not isinstance(target, Ref):
            raise Rejected("only functions of " + ", ".join(self._host.modules) + " can be called")
        kwargs: dict[str, Value] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise _unsupported(call, "`**`")
            if keyword.arg not in self._host.ignored_arguments:
                kwargs[keyword.arg] = self._value(keyword.value)
        return target.name, self._elements(call.args), kwargs

    def _builtin(self, name: str, call: ast.Call) -> Value:
        if name == "print":
            self._check_print(call)
            return None
        if call.keywords:
            raise Rejected(f"{name}() takes no named arguments here")
        numbers = [_as_number(value, f"{name}()") for value in self._elements(call.args)]
        try:
            return _BUILTINS[name](*numbers)
        except (TypeError, ArithmeticError) as error:
            raise Rejected(f"{name}() is called wrongly: {error}") from error

    def _check_print(self, call: ast.Call) -> None:
        for node in ast.walk(call):
            self._tick()
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in _BUILTINS:
                    pass
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attribute)) if (
                    f"{owner}.{attribute}" in self._host.harmless
                ):
                    pass
                case ast.Call():
                    raise Rejected("print is ignored, so it cannot contain other calls")

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        if type(op) not in _OPERATORS:
            raise _unsupported(op, "this operator")
        sign, function = _OPERATORS[type(op)]
        if sign == "+":
            if isinstance(left, str) and isinstance(right, str):
                return left + right
            if isinstance(left, tuple) and isinstance(right, tuple):
                return left + right
        if sign == "*":
            count, whole = (left, right) if isinstance(left, int) else (right, left)
            if isinstance(whole, str | tuple) and isinstance(count, int):
                if count * len(whole) > MAX_TEXT:
                    raise Rejected(f"a repeated text or list is longer than {MAX_TEXT}")
                return whole * count
        try:
            return function(_as_number(left, sign), _as_number(right, sign))
        except ArithmeticError as error:
            raise Rejected(f"this arithmetic has no result: {error}") from error

    def _items(self, value: Value, where: str) -> tuple[Value, ...]:
        if not isinstance(value, range | tuple | str):
            raise Rejected(f"{where} needs a list or range()")
        if len(value) > MAX_ITEMS:
            raise Rejected(f"{where} has {len(value)} items; at most {MAX_ITEMS} are allowed")
        return tuple(value)

    def _bounded(self, value: Value) -> Value:
        if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:
            raise Rejected("a number is too large")
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise Rejected(f"a text is longer than {MAX_TEXT} characters")
        if isinstance(value, tuple) and len(value) > MAX_ITEMS:
            raise Rejected(f"a list has more than {MAX_ITEMS} items")
        return value


_BUILTINS: dict[str, Callable[..., Value]] = {
    "range": lambda *numbers: range(*numbers),
    "int": int,
    "round": round,
    "abs": abs,
    "min": lambda *numbers: min(numbers, default=0),
    "max": lambda *numbers: max(numbers, default=0),
    "str": lambda number: str(number),
    "print": lambda: None,
}


def _as_number(value: Value, where: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"{where} needs numbers")
    return value


def _unsupported(node: ast.AST, name: str | None = None) -> Rejected:
    return Rejected(f"{name or _CONSTRUCTS.get(type(node), type(node).__name__)} is not supported")
