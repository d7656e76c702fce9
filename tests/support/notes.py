"""A desktop in memory with an editor that types and saves, a bundle for it, and twins of the bundle that are broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.policies.script import Do, SayDone, SayInfeasible, ScriptStep
from sandbox.actions import Action, Done, Press, TypeText
from sandbox.desktop import DesktopSpec, User
from sandbox.evidence import FileRequest
from tests.support.desktop import FakeDesktop
from tests.support.evidence import file_item, make_evidence
from tests.support.screen import make_window
from verigen.bundle import Bundle, Example, Examples, Negative, Provenance, Solution
from verigen.checks.model import AllOf, FinalActionCheck, TextCheck
from verigen.task import AssertStep, ExecStep, LaunchStep, Limits, Task, TextFileStep, WaitWindowStep

__all__ = ["NOTES", "NotesDesktop", "notes_bundle", "typing"]

NOTES = "/home/user/notes.txt"


class NotesDesktop(FakeDesktop):
    """Launching `editor` opens a window on the notes; what is typed is appended; ctrl+s writes it to the file."""

    def __init__(self, spec: DesktopSpec | None = None, **options: Any) -> None:
        super().__init__(spec=spec, on_step=NotesDesktop._edit, **options)
        self.buffer = ""

    async def spawn(
        self, argv: Sequence[str], *, user: User = "user", cwd: str | None = None, env: dict[str, str] | None = None
    ) -> int:
        pid = await super().spawn(argv, user=user, cwd=cwd, env=env)
        self.windows = (make_window(argv[0], "notes.txt"),)
        self.buffer = self.files.get(NOTES, b"").decode()
        return pid

    def _edit(self: FakeDesktop, actions: Sequence[Action]) -> None:
        assert isinstance(self, NotesDesktop)
        for action in actions:
            if isinstance(action, TypeText):
                self.buffer += action.text
            if isinstance(action, Press) and action.keys == ("ctrl", "s"):
                self.files[NOTES] = self.buffer.encode()


def typing(text: str, *, save: bool = True) -> tuple[ScriptStep, ...]:
    """A script that types, saves and says done."""
    saving = (Do(action=Press(keys=("ctrl", "s"))),) if save else ()
    return (Do(action=TypeText(text=text)), *saving, SayDone())


def notes_bundle(**changes: Any) -> Bundle:
    """A sound bundle; `changes` replace fields of it, and fields of its task with `task_` before their names."""
    notes = FileRequest(name="notes", path=NOTES)
    task: dict[str, Any] = {
        "name": "append-bread",
        "instruction": "Append a line that says bread to the open notes and save them.",
        "apps": ("editor",),
        "skills": ("edit",),
        "desktop": DesktopSpec(width=160, height=120),
        "limits": Limits(max_steps=10, time_limit_s=20.0),
        "setup": (
            TextFileStep(path=NOTES, text="milk\n"),
            LaunchStep(argv=("editor", NOTES)),
            WaitWindowStep(app="editor", timeout_s=0.3),
        ),
        "setup_asserts": (AssertStep(evidence=(notes,), check=TextCheck(item="notes", expected="milk")),),
        "evidence": (notes,),
        "check": AllOf(of=(TextCheck(item="notes", expected="milk\nbread\n"), FinalActionCheck(kind="done"))),
    }
    task |= {name.removeprefix("task_"): value for name, value in changes.items() if name.startswith("task_")}
    bundle: dict[str, Any] = {
        "task": Task(**task),
        "oracle": typing("bread\n"),
        "alternatives": (Solution(name="without the last line end", script=typing("bread")),),
        "negatives": (
            Negative(name="not saved", why="the file is as before", script=typing("bread\n", save=False)),
            Negative(name="a typo", why="the line is not bread", script=typing("braed\n")),
            Negative(name="on the same line twice", why="the line is not bread", script=typing("breadbread\n")),
            Negative(
                name="gives up after a shortcut",
                why="the task is feasible",
                before=(ExecStep(argv=("true",)),),
                script=(SayInfeasible(),),
            ),
        ),
        "examples": Examples(
            golden=Example(evidence=make_evidence(notes=file_item("milk\nbread\n")), final=Done()),
            initial=Example(evidence=make_evidence(notes=file_item("milk\n")), final=Done()),
        ),
        "provenance": Provenance(generator="test"),
        "seed_state": "notes",
    }
    bundle |= {name: value for name, value in changes.items() if not name.startswith("task_")}
    return Bundle(**bundle)
