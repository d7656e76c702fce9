"""Whatever was recorded is played back, call by call, on every branch."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.actions import Click, Point, Press, TypeText
from sandbox.backends.recorded import RecordedBackend, RecordingDesktop
from sandbox.backends.tape import Tape, pack
from sandbox.desktop import A11yNode, Desktop, DesktopSpec, ExecResult, Rect, Settle, Window
from sandbox.errors import DeadlineExceeded, ProbeLost, Unavailable
from sandbox.evidence import EvidenceItem, FileRequest, ProcessRequest
from tests.support.desktop import FakeDesktop
from tests.support.screen import make_frame

SPEC = DesktopSpec(width=160, height=120)

Ask = Callable[[Desktop], Awaitable[Any]]

strings = st.text(max_size=6)
actions = st.one_of(
    st.builds(TypeText, text=st.text(alphabet="ab€😀", min_size=1, max_size=3)),
    st.builds(Click, point=st.builds(Point, x=st.integers(0, 200), y=st.integers(0, 99))),
    st.builds(Press, keys=st.just(("ctrl", "s"))),
)
wants = st.lists(st.sampled_from(["frame", "windows", "a11y"]), max_size=3).map(tuple)
paths = st.sampled_from(["/a", "/b", "/é"])


def _ask(call: str, *args: Any, **options: Any) -> Ask:
    return lambda desktop: getattr(desktop, call)(*args, **options)


asks: st.SearchStrategy[Ask] = st.one_of(
    st.builds(
        lambda batch, want, settle, id: _ask("step", batch, want=want, settle=settle, request_id=id),
        st.lists(actions, max_size=3).map(tuple),
        wants,
        st.none() | st.builds(Settle, cap_ms=st.integers(1, 9)),
        st.none() | st.uuids().map(str),
    ),
    wants.map(lambda want: _ask("observe", want)),
    st.builds(lambda path, data: _ask("put_file", path, data), paths, st.binary(max_size=9)),
    st.builds(lambda path, limit: _ask("get_file", path, max_bytes=limit), paths, st.integers(0, 9)),
    st.builds(lambda argv, stdin: _ask("exec", argv, stdin=stdin), st.lists(strings), st.binary(max_size=4)),
    strings.map(lambda word: _ask("spawn", [word])),
    paths.map(lambda path: _ask("collect", [FileRequest(name="f", path=path), ProcessRequest(name="p", process="x")])),
    st.just(_ask("health")),
)
nodes: st.SearchStrategy[A11yNode] = st.deferred(
    lambda: st.builds(
        A11yNode,
        role=strings,
        name=strings,
        states=st.lists(strings, max_size=2).map(tuple),
        bounds=st.none() | st.just(Rect(x=1, y=2, width=3, height=4)),
        text=st.none() | strings,
        value=st.none() | st.floats(allow_nan=False),
        children=st.lists(nodes, max_size=2).map(tuple),
    )
)
windows = st.builds(
    Window,
    id=st.integers(0, 2**32),
    title=strings,
    app=strings,
    bounds=st.just(Rect(x=-5, y=0, width=1, height=9)),
    active=st.booleans(),
    dialog=st.booleans(),
)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | strings,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(strings, inner, max_size=2),
    max_leaves=5,
)


def _desktop(salt: int, tree: list[A11yNode], shown: list[Window], evidence: Any) -> FakeDesktop:
    """A desktop whose answers depend on all that happened to it."""
    return FakeDesktop(
        spec=SPEC,
        frames=[make_frame(salt + shade) for shade in range(4)],
        a11y=tree,
        windows=shown,
        files={"/a": b"12345"},
        evidence={"p": EvidenceItem(status="ok", data=evidence)},
        exec_handler=_run,
    )


def _run(argv: Sequence[str]) -> ExecResult:
    stdout = repr(list(argv)).encode()
    return ExecResult(exit_code=len(argv), stdout=stdout, stderr=b"\xff", truncated=False, timed_out=True, seconds=0.1)


async def _outcomes(desktop: Desktop, script: list[Ask]) -> list[Any]:
    outcomes = []
    for ask in script:
        try:
            outcomes.append(await ask(desktop))
        except Exception as error:  # noqa: BLE001 - a failure is an outcome like any other
            outcomes.append((type(error), str(error), getattr(error, "phase", None)))
    return outcomes


@settings(max_examples=40, deadline=None)
@given(
    scripts=st.lists(st.lists(asks, max_size=6), min_size=1, max_size=4),
    prefix=st.lists(asks, max_size=3),
    salt=st.integers(0, 99),
    tree=st.lists(nodes, max_size=2),
    shown=st.lists(windows, max_size=2),
    evidence=json_data,
    failures=st.lists(
        st.tuples(
            st.sampled_from(["step", "observe", "exec", "get_file", "collect", "health"]),
            st.integers(1, 3),
            st.sampled_from([ProbeLost("a"), Unavailable("b", phase="grader"), DeadlineExceeded("c")]),
        ),
        max_size=3,
    ),
)
def test_what_was_recorded_is_played(
    scripts: list[list[Ask]],
    prefix: list[Ask],
    salt: int,
    tree: list[A11yNode],
    shown: list[Window],
    evidence: Any,
    failures: list[tuple[str, int, Exception]],
) -> None:
    async def main(directory: Path) -> None:
        recorded = []
        for script in scripts:
            inner = _desktop(salt, tree, shown, evidence)
            for call, nth, error in failures:
                inner.fail(call, error, nth=nth)
            with Tape.record(directory / "tape") as tape:
                recorder = RecordingDesktop(inner, tape)
                outcomes = await _outcomes(recorder, prefix + script)
                if recorder.diverged == 0:  # a process id may differ where another branch has spawned more
                    recorded.append((prefix + script, outcomes))
        pack(directory / "tape", directory / "tape.zip")
        backend = RecordedBackend(directory / "tape.zip")
        for script, outcomes in reversed(recorded):
            assert await _outcomes(await backend.boot(SPEC), script) == outcomes
        await backend.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
