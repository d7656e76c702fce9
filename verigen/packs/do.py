"""Short ways to write scripts and steps, for packs."""

from __future__ import annotations

from agent.policies.script import ClickOn, Do, ScriptStep
from sandbox.actions import Click, Point, Press, TypeText
from sandbox.evidence import CommandRequest, EvidenceRequest, FileRequest, GlobRequest
from verigen.checks.model import CheckNode, GlobCheck, TextCheck
from verigen.packs.compose import Fact
from verigen.task import AssertStep, ExecStep

__all__ = [
    "asserted",
    "click",
    "click_at",
    "file_fact",
    "glob_fact",
    "key",
    "keys",
    "typed_by_setup",
    "typing",
    "xfconf_fact",
    "xfconf_file",
]


def key(*chord: str) -> ScriptStep:
    """Press a chord."""
    return Do(action=Press(keys=chord))


def keys(*names: str) -> tuple[ScriptStep, ...]:
    """Press keys one after the other."""
    return tuple(key(name) for name in names)


def typing(text: str) -> ScriptStep:
    """Type a text."""
    return Do(action=TypeText(text=text))


def click(app: str, role: str, name: str, *, clicks: int = 1, within: str | None = None) -> ScriptStep:
    """Click a widget."""
    return ClickOn(app=app, role=role, name=name, clicks=clicks, within=within)


def click_at(x: int, y: int) -> ScriptStep:
    """Click a pixel."""
    return Do(action=Click(point=Point(x=x, y=y)))


def typed_by_setup(text: str) -> ExecStep:
    """A setup step that types into the active window."""
    return ExecStep(argv=("xdotool", "type", "--delay", "60", text))


def asserted(evidence: EvidenceRequest, check: CheckNode) -> AssertStep:
    """An assertion on one evidence item."""
    return AssertStep(evidence=(evidence,), check=check)


def file_fact(item: str, path: str, text: str) -> Fact:
    """That a file holds exactly this text."""
    return Fact(evidence=FileRequest(name=item, path=path), check=TextCheck(item=item, expected=text))


def glob_fact(item: str, pattern: str, *names: str, kind: str = "any") -> Fact:
    """That exactly these paths exist."""
    check = GlobCheck.model_validate({"item": item, "names": tuple(sorted(names)), "kind": kind})
    return Fact(evidence=GlobRequest(name=item, pattern=pattern), check=check)


def xfconf_fact(channel: str, name: str, value: str | bool) -> Fact:
    """That a setting of an Xfce application is this."""
    item = name.strip("/").replace("/", "-")
    argv = ("xfconf-query", "-c", channel, "-p", name)
    return Fact(
        evidence=CommandRequest(name=item, argv=argv),
        check=TextCheck(item=item, expected=str(value).lower() if isinstance(value, bool) else value),
    )


def xfconf_file(channel: str, values: dict[str, str | bool]) -> str:
    """The file from which an Xfce application reads its settings; `/a/b` is property b inside a."""
    tree: dict[str, dict[str, str | bool]] = {}
    for name, value in values.items():
        group, _, last = name.strip("/").rpartition("/")
        tree.setdefault(group, {})[last] = value
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<channel name="{channel}" version="1.0">']
    for group, properties in sorted(tree.items()):
        inner = [_property(name, value) for name, value in properties.items()]
        for part in reversed(group.split("/") if group else []):
            inner = [f'<property name="{part}" type="empty">', *inner, "</property>"]
        lines += inner
    return "\n".join([*lines, "</channel>"]) + "\n"


def _property(name: str, value: str | bool) -> str:
    if isinstance(value, bool):
        return f'<property name="{name}" type="bool" value="{str(value).lower()}"/>'
    return f'<property name="{name}" type="string" value="{value}"/>'
