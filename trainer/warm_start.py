"""Learning from demonstrations: the tasks' own solutions, watched on real desktops, then imitated.

::

    solutions on desktops -> trajectories that pass, and what lay where (accessibility) -.
    solutions as text (plans) -----------------------------------------------------------`-> vocabulary -> reading of
                                                                                             plans -> imitation

Each attempt is committed as it ends and imitation is saved as it goes, so an interrupted warm start goes on where it
was. A demonstration counts only if its task's check passed it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agent.engines.tokens import Vocabulary
from agent.policy import Policy, PolicyReply, PolicyRequest
from evals.rollouts import Rollout, run_rollouts
from sandbox.frame import Frame
from sandbox.hub import Lender
from store import BlobStore, Trajectory, TrajectoryStore
from trainer.checkpoints import CheckpointStore
from trainer.config import RunConfig, TaskChoice, WarmStart
from trainer.errors import NothingToDo
from trainer.learner import LearnerSettings
from trainer.learner_process import TeachSettings, start_learner
from trainer.losses import ClipRange
from trainer.metrics import JsonlSink
from trainer.plans import Plan
from trainer.run_directory import RunDirectory
from trainer.tasks import TrainingTask
from trainer.widgets import Widget, WidgetRecorder
from verigen.bundle import Bundle
from verigen.packs import Draw, SkillPack, content_key, split_of

__all__ = ["Demonstrations", "collect_demonstrations", "draw_tasks", "imitate", "imitate_further", "together"]

CHUNK = 20
"""Updates between two looks at how imitation goes."""
ENOUGH_CHUNKS = 5
SAVE_EVERY = 200
"""Updates between two checkpoints."""
PLANS_PER_UPDATE = 32
"""While nothing but plans is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demonstrations:
    """What was watched."""

    trajectories: tuple[Trajectory, ...]
    """That passed, in the order planned."""
    widgets: dict[str, tuple[Widget, ...]]
    """By the screenshots' names."""
    num_failed: int
    """Solutions that did not pass; each is a fault of its task or of the machine."""


def draw_tasks(
    packs: Sequence[SkillPack],
    count: int,
    *,
    seed: int,
    known: Sequence[Bundle],
    choice: TaskChoice | None = None,
    purpose: str = "demonstration",
) -> list[TrainingTask]:
    """Further training tasks from the packs, templates in turn, for the warm start alone: nobody has proven them.

    Args:
        known: are not drawn again.
        choice: what may be drawn.
        purpose: draws for another purpose are others.
    """
    templates = [
        template
        for pack in packs
        for template in pack.templates
        if choice is None or choice.allows_template(template.name)
    ]
    used = {content_key(bundle) for bundle in known}
    found: list[TrainingTask] = []
    for index in range(100 * count):
        if len(found) == count or not templates:
            break
        template = templates[index % len(templates)]
        bundle = template.make(Draw(f"{purpose}/{seed}/{template.name}/{index}"))
        allowed = choice is None or choice.allows(bundle.task)
        if allowed and split_of(bundle) == "train" and content_key(bundle) not in used:
            used.add(content_key(bundle))
            found.append(TrainingTask(bundle=bundle, split="train"))
    return found


async def collect_demonstrations(
    config: RunConfig,
    tasks: Sequence[TrainingTask],
    drawn: Sequence[TrainingTask],
    directory: RunDirectory,
    hub: Lender,
    store: TrajectoryStore,
    blobs: BlobStore,
    *,
    on_end: Callable[[Trajectory], None] = lambda trajectory: None,
) -> Demonstrations:
    """Watch the tasks' own solutions, tasks in turn.

    Args:
        drawn: attempted once each, on top.

    Raises:
        NothingToDo: there is no task, or no solution passed.
    """
    if not tasks:
        raise NothingToDo("there are no training tasks; make some with `frontdesk synth --count 30`")
    chosen = [tasks[number % len(tasks)] for number in range(config.warm_start.demonstrations)] + list(drawn)
    recorder_file = directory.widgets
    _drop_cut_line(recorder_file)
    rollouts = [
        Rollout(
            id=f"{directory.root.name}-demo-{number:05d}",
            task=task.runner,
            spec=task.bundle.task.desktop,
            policy=_KeepingRecorder(task.oracle(), recorder_file),
            group_id=f"{directory.root.name}-demo",
            seed_env=config.seed,
            seed_sampling=config.seed * 1_000_003 + number,
            harness=config.harness,
        )
        for number, task in enumerate(chosen)
    ]
    trajectories = await run_rollouts(
        rollouts, hub, store, blobs, limit=config.desktops, on_end=lambda _, trajectory, __: on_end(trajectory)
    )
    passed = tuple(trajectory for trajectory in trajectories if trajectory.outcome == "pass")
    if not passed:
        raise NothingToDo(
            f"none of {len(trajectories)} solutions passed; `frontdesk tasks verify` says what is wrong with the tasks"
        )
    seen = {turn.frame for trajectory in passed for turn in trajectory.turns}
    widgets = {name: found for name, found in _read_widgets(recorder_file).items() if name in seen}
    return Demonstrations(trajectories=passed, widgets=widgets, num_failed=len(trajectories) - len(passed))


async def imitate(
    config: RunConfig,
    shown: Demonstrations,
    directory: RunDirectory,
    blobs: Path,
    *,
    plans: Sequence[Plan] = (),
    on_metrics: Callable[[dict[str, float]], None] = lambda metrics: None,
) -> Path:
    """Build a policy and teach it plans, then demonstrations until the stop rule of `WarmStart`; return its checkpoint.

    Updates are counted over both.
    """
    settings = config.warm_start
    frame = _first_frame(shown, blobs)
    learner = await start_learner(
        (vocabulary_of(shown, plans, frame), settings.size, config.seed),
        _learner_settings(settings, plans),
        config.harness,
        clip=ClipRange(),
        blobs=blobs,
        weights=directory.weights(),
    )
    try:
        await learner.demonstrate(shown.trajectories, shown.widgets, plans)
        done, low = 0, 0
        checkpoint = CheckpointStore(directory.warm).latest()
        if checkpoint is not None:
            _, extra = await learner.restore(checkpoint)
            done, low = extra["updates"], extra["low"]
            if extra["finished"]:
                return checkpoint
        log = JsonlSink(directory.root / "warm.jsonl", resume_step=done)
        try:
            reading = settings.reading if plans else 0
            last = _num_updates(settings, plans)
            while True:
                alone = done < reading
                count = min(CHUNK, (reading if alone else last) - done)
                metrics = await learner.teach(count, _plans_alone() if alone else together(settings))
                done += count
                low = low + 1 if not alone and metrics["reply_loss"] < settings.enough else 0
                log.write(done, metrics)
                on_metrics({**metrics, "updates": done})
                finished = done >= last or low >= ENOUGH_CHUNKS
                if finished or done % SAVE_EVERY == 0:
                    state = {"updates": done, "low": low, "finished": finished}
                    checkpoint = await learner.checkpoint(directory.warm, done, state)
                if finished:
                    assert checkpoint is not None
                    return checkpoint
        finally:
            log.close()
    finally:
        await learner.close()


async def imitate_further(
    config: RunConfig,
    shown: Demonstrations,
    plans: Sequence[Plan],
    start: Path,
    into: Path,
    blobs: Path,
    *,
    weights: Path,
    cpu_s: float,
) -> Path:
    """Go on imitating from a finished warm start until the learner has used so much CPU time; return the checkpoint.

    Args:
        start: the warm start's checkpoint.
        into: directory of the new checkpoints; an interrupted call goes on from the newest of them.
        weights: an empty directory.
    """
    settings = config.warm_start
    learner = await start_learner(
        start, _learner_settings(settings, plans), config.harness, clip=ClipRange(), blobs=blobs, weights=weights
    )
    try:
        await learner.demonstrate(shown.trajectories, shown.widgets, plans)
        checkpoint = CheckpointStore(into).latest()
        _, extra = await learner.restore(checkpoint or start)
        done, spent_s = extra["updates"], extra.get("further_s", 0.0)
        while spent_s < cpu_s or checkpoint is None:
            begun = await learner.cpu_s()
            await learner.teach(SAVE_EVERY, together(settings))
            done, spent_s = done + SAVE_EVERY, spent_s + await learner.cpu_s() - begun
            checkpoint = await learner.checkpoint(into, done, {"updates": done, "further_s": spent_s})
        return checkpoint
    finally:
        await learner.close()


def _num_updates(settings: WarmStart, plans: Sequence[Plan]) -> int:
    return settings.updates + (settings.reading if plans else 0)


def _learner_settings(settings: WarmStart, plans: Sequence[Plan]) -> LearnerSettings:
    """With a learning rate that falls until the end, unless the run file says otherwise: the noise of a high one costs
    a small policy much of what it has learned."""
    if settings.learner.decay_steps is not None:
        return settings.learner
    return settings.learner.model_copy(update={"decay_steps": max(1, _num_updates(settings, plans))})


def _plans_alone() -> TeachSettings:
    return TeachSettings(batch=0, pointing=0, plans=PLANS_PER_UPDATE)


def together(settings: WarmStart) -> TeachSettings:
    """What an update from demonstrations is made of."""
    return TeachSettings(batch=settings.batch, pointing=settings.pointing, plans=settings.reminders)


def vocabulary_of(shown: Demonstrations, plans: Sequence[Plan], frame: Frame) -> Vocabulary:
    """The words of what was asked, of what lay on the screens, of what was written and of what is planned."""
    texts = [trajectory.instruction for trajectory in shown.trajectories]
    texts += [turn.raw for trajectory in shown.trajectories for turn in trajectory.turns]
    texts += [widget.name for found in shown.widgets.values() for widget in found]
    texts += [text for plan in plans for text in plan.texts()]
    return Vocabulary.from_texts(texts, width=frame.width, height=frame.height)


class _KeepingRecorder(WidgetRecorder):
    """Writes down what lay on a screenshot before the attempt that saw it is committed."""

    def __init__(self, policy: Policy, file: Path) -> None:
        super().__init__(policy)
        self._file = file

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        before = len(self.widgets)
        reply = await super().reply(request)
        if len(self.widgets) > before:
            name, found = next(reversed(self.widgets.items()))
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, [asdict(widget) for widget in found]]) + "\n")
        return reply


def _read_widgets(file: Path) -> dict[str, tuple[Widget, ...]]:
    if not file.exists():
        return {}
    lines = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    return {name: tuple(Widget(**widget) for widget in found) for name, found in lines}


def _drop_cut_line(file: Path) -> None:
    """Take away a last line that a crash cut off."""
    if file.exists() and not (text := file.read_text("utf-8")).endswith("\n"):
        file.write_text(text[: text.rfind("\n") + 1], "utf-8")


def _first_frame(shown: Demonstrations, blobs: Path) -> Frame:
    names = [turn.frame for trajectory in shown.trajectories for turn in trajectory.turns if turn.frame is not None]
    frames = BlobStore(blobs)
    sizes = {
        (frame.width, frame.height): frame for frame in map(lambda n: Frame.decode(frames.get(n)), set(names[:50]))
    }
    if len(sizes) != 1:
        raise ValueError(
            f"the tasks have screens of sizes {sorted(sizes)}; a small policy learns one. Choose tasks with "
            "`[tasks] apps`, or start from a policy of another kind"
        )
    return next(iter(sizes.values()))
