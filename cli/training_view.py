"""What a training run shows: a live panel on a terminal, one line an update elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cli.output import MARKS, age, table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from evals.rollouts import Rollout
    from store import Trajectory
    from trainer.progress import LoopView
    from trainer.quickstart import Told
    from trainer.session import Watcher

__all__ = ["TrainingView"]

REFRESH_S = 0.5
LINE_EVERY = 100
"""Imitation updates, or evaluated attempts, between two lines of a log."""


class TrainingView:
    """Shows a run while the `with` block lasts.

    Args:
        console: where to.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._phase = ""
        self._total = self._done = 0
        self._passed = 0
        self._imitated: dict[str, float] = {}
        self._view: LoopView | None = None
        self._last: dict[str, float] = {}
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def watcher(self) -> Watcher:
        """What a session tells of itself."""
        from trainer.session import Watcher

        return Watcher(
            phase=self._begin, demonstrated=self._demonstrated, imitated=self._imitating, view=self._practising
        )

    def told(self) -> Told:
        """What a quickstart tells of itself."""
        from trainer.quickstart import Told

        return Told(**vars(self.watcher()), proven=self._proven, evaluated=self._evaluated)

    def _begin(self, name: str, total: int) -> None:
        self._phase, self._total, self._done, self._passed = name, total, 0, 0
        self._say(f"[bold]{name}[/bold] ({total})")
        self._draw(force=True)

    def _demonstrated(self, trajectory: Trajectory) -> None:
        self._done += 1
        self._passed += trajectory.outcome == "pass"
        if trajectory.outcome != "pass":
            self._say(f"{MARKS['warn']} the solution of {trajectory.task_id[:12]} ended as {trajectory.outcome}")
        elif self._done == self._total:
            self._say(f"{MARKS['ok']} {self._passed} of {self._total} solutions passed")
        self._draw()

    def _proven(self, name: str, passed: bool, why: str) -> None:
        from rich.markup import escape

        self._say(f"{MARKS['ok' if passed else 'bad']} {name} {'proven' if passed else f'rejected by {escape(why)}'}")

    def _evaluated(self, rollout: Rollout, trajectory: Trajectory, kept: bool) -> None:
        self._done += 1
        self._passed += trajectory.outcome == "pass"
        if trajectory.error is not None and not kept:
            self._say(f"{MARKS['warn']} {trajectory.id}: {trajectory.error.type}")
        if self._done % LINE_EVERY == 0 or self._done == self._total:
            self._say(f"  {self._done}/{self._total} attempts")
        self._draw()

    def _imitating(self, metrics: dict[str, float]) -> None:
        self._done, self._imitated = int(metrics["updates"]), metrics
        if self._done % LINE_EVERY == 0 or self._done == self._total:
            self._say(f"  {self._done}/{self._total}  loss of a token {metrics['reply_loss']:.3f}")
        self._draw()

    def _practising(self, view: LoopView) -> None:
        self._view, self._done = view, view.step
        if view.metrics is not None:
            self._last = dict(view.metrics)
            self._say(
                f"  update {view.step}/{view.updates}  success {self._last.get('success', 0.0):.2f}  reward "
                f"{self._last['reward_mean']:.2f}  {view.episodes_per_minute:.0f} episodes/min  stale "
                f"{self._last['staleness_mean']:.1f}  [dim]{age(view.seconds)}[/dim]"
            )
        self._draw()

    def _say(self, markup: str) -> None:
        self._console.print(markup, highlight=False)

    def _draw(self, *, force: bool = False) -> None:
        if self._live is None or (not force and time.monotonic() - self._drawn_at < REFRESH_S):
            return
        self._drawn_at = time.monotonic()
        self._live.update(self._panel(), refresh=True)

    def _panel(self) -> RenderableType:
        from rich.console import Group

        parts: list[RenderableType] = [f"[bold]{self._phase}[/bold] {self._done}/{self._total}"]
        view = self._view
        if view is not None:
            shares = "  ".join(f"{name} {share:.0%}" for name, share in view.shares.items())
            rows = [
                [skill, f"{passed}/{judged}", f"{passed / judged:.2f}"]
                for skill, (passed, judged) in sorted(view.skills.items())
            ]
            parts += [
                f"{view.episodes} episodes, {view.episodes_per_minute:.0f} a minute, {view.infra_errors} infra errors; "
                f"groups: {view.running} under way, {view.ready} ready"
                + (
                    f"; tasks held: {view.tasks_held}, gates run again: {view.gates_rerun}"
                    if view.gates_rerun or view.tasks_held
                    else ""
                ),
                f"[dim]time of attempts: {shares}[/dim]",
                table(["Skill", ">newest passed", ">rate"], rows),
            ]
        elif self._imitated:
            parts.append(f"loss of a token {self._imitated['reply_loss']:.3f}")
        return Group(*parts)
