"""What the small policy costs: a turn of the engine, a turn of training; and how soon a warm start clicks right.

All on one thread and without a desktop, on drawn screens (`benchmarks.scenes.buttons`). Times are CPU seconds of this
process. Turns are measured on screens as large as a small desktop's. The warm start learns small screens, drawn as they
are needed, so that none is seen twice; its clicks are then tried, greedily, on screens that it has not seen.
"""

from __future__ import annotations

import asyncio
import random
import time

import torch

from agent.context import Context
from agent.engines.protocol import GenerateRequest, ImageRef
from agent.engines.qwen3vl.checkpoint import PolicyModel, build_tiny
from agent.engines.qwen3vl.runner import Runner
from agent.engines.tokens import CompactFormat, TokenStream, Vocabulary
from agent.engines.transformers_engine import TransformersEngine
from agent.harness import Harness
from benchmarks.record import Bench, Result, ResultTable
from benchmarks.scenes.buttons import DESKTOP, SMALL, ScreenKind, demonstration, make_screen, make_task
from sandbox.frame import Frame
from trainer.batches import TrainingSequence, training_sequences
from trainer.demonstrations import pointing_sequence, with_tokens
from trainer.learner import Learner, LearnerSettings
from trainer.objectives import SupervisedObjective
from trainer.widgets import GroundingLabel, grounding_labels

WINDOW, DELTA = 3, 2
TURNS = 8
CONCURRENT = (1, 4, 8)
WARM_CPU_S = (20, 40, 60)
EPISODES = 2
"""Demonstrations of one update."""
TRIED = 200
"""Held-out screens."""


def run(bench: Bench) -> Result:
    """Measure every arm."""
    torch.set_num_threads(1)
    turns = {n: bench.arm(f"{n} trajectories", lambda n=n: asyncio.run(_turns(n))) for n in CONCURRENT}  # type: ignore[misc]
    warm = bench.arm("warm start", lambda: _warm_start(bench.seed))
    figures = {f"turn_cpu_ms_{n}": measured["cpu_ms"] for n, measured in turns.items()}
    figures["turn_fed_tokens"] = turns[1]["fed_tokens"]
    figures |= warm
    return Result(
        figures=figures,
        tables=(
            ResultTable(
                title=f"One turn of the engine on 320x224, H({WINDOW}, {DELTA}), {TURNS} turns a trajectory",
                columns=("trajectories at once", "CPU ms", "tokens computed", "tokens of the prompt"),
                rows=tuple((str(n), m["cpu_ms"], m["fed_tokens"], m["prompt_tokens"]) for n, m in turns.items()),
            ),
            ResultTable(
                title=f"Warm start, {TRIED} held-out screens, greedy",
                columns=("CPU s", "right name", "click in the box"),
                rows=tuple((str(s), warm[f"named_{s}s"], warm[f"hit_{s}s"]) for s in WARM_CPU_S),
            ),
        ),
    )


def _policy(kind: ScreenKind, seed: int) -> PolicyModel:
    words = ["Click then", " ".join(kind.names)]
    return build_tiny(Vocabulary.from_texts(words, width=kind.width, height=kind.height), seed=seed)


def _image(frame: Frame) -> ImageRef:
    return ImageRef(sha256=frame.sha256, width=frame.width, height=frame.height, pixels=frame.pixels)


def _request(
    policy: PolicyModel, name: str, stream: TokenStream, context: Context, **changes: float
) -> GenerateRequest:
    prompt = stream.prompt(context.turns)
    form = policy.format
    return GenerateRequest(
        request_id=name,
        affinity=name.partition(":")[0],
        prompt_ids=prompt.ids,
        images=tuple(map(_image, prompt.frames)),
        max_tokens=6,
        temperature=changes.get("temperature", 1.0),
        seed=len(context.turns),
        stop_ids=form.stop_ids,
        banned_ids=form.banned_ids,
        grammar="compact",
    )


async def _turns(num_trajectories: int) -> dict[str, float]:
    policy = _policy(DESKTOP, 0)
    engine = TransformersEngine(policy)
    prompts: list[int] = []

    async def play(number: int) -> None:
        rng = random.Random(number)
        stream = TokenStream(policy.format, system_prompt="", instruction="Click Save then Open", placeholder="")
        context = Context(window=WINDOW, delta=DELTA)
        for index in range(TURNS):
            context.observe(make_screen(DESKTOP, rng).draw())
            result = await engine.generate(_request(policy, f"{number}:{index}", stream, context))
            stream.record(index, result.sampled_ids)
            context.answer(policy.format.decode_reply(result.sampled_ids))
            prompts.append(len(result.prompt_ids))

    try:
        await play(1000)  # warms up
        prompts.clear()
        fed, begun = engine.num_fed, time.process_time()
        async with asyncio.TaskGroup() as group:
            for number in range(num_trajectories):
                group.create_task(play(number))
        seconds, fed = time.process_time() - begun, engine.num_fed - fed
    finally:
        await engine.close()
    num_turns = num_trajectories * TURNS
    return {
        "cpu_ms": round(1000 * seconds / num_turns, 2),
        "fed_tokens": round(fed / num_turns, 1),
        "prompt_tokens": round(sum(prompts) / num_turns, 1),
    }


def _warm_start(seed: int) -> dict[str, float]:
    policy = _policy(SMALL, seed)
    assert isinstance(policy.format, CompactFormat)
    rng = random.Random(seed)
    frames: dict[str, Frame] = {}
    labels: dict[str, tuple[GroundingLabel, ...]] = {}
    settings = LearnerSettings(lr=1.5e-3, warmup_steps=20, seed=seed)
    learner = Learner(policy, settings, frames=frames.__getitem__)
    objective = SupervisedObjective(policy.format.vocabulary, labels)
    figures: dict[str, float] = {}
    spent = taught = 0.0
    updates = turns = 0
    for stop in WARM_CPU_S:
        while spent < stop:
            begun = time.process_time()
            frames.clear()
            labels.clear()
            batch = [
                each for n in range(EPISODES) for each in _lesson(f"{updates}:{n}", policy.format, rng, frames, labels)
            ]
            drawn = time.process_time()
            learner.update(batch, objective)
            taught += time.process_time() - drawn
            spent += time.process_time() - begun
            updates += 1
            turns += sum(len(sequence.turns) for sequence in batch)
        named, hit = _try(policy, random.Random(f"held out {seed}"))
        figures |= {f"named_{stop}s": named, f"hit_{stop}s": hit}
    return figures | {"train_turn_cpu_ms": round(1000 * taught / turns, 1), "updates": updates}


def _lesson(
    name: str,
    form: CompactFormat,
    rng: random.Random,
    frames: dict[str, Frame],
    labels: dict[str, tuple[GroundingLabel, ...]],
) -> list[TrainingSequence]:
    screen = make_screen(SMALL, rng)
    instruction, targets = make_task(screen, rng)
    shown, seen = demonstration(name, screen, instruction, targets, window=WINDOW, delta=DELTA)
    frames |= seen
    for frame in seen:
        labels[frame] = grounding_labels(screen.widgets, form.vocabulary, form.images, (SMALL.width, SMALL.height))
    harness = Harness(window=WINDOW, delta=DELTA)
    told = with_tokens(shown, form, harness, frames=frames.__getitem__, widgets=dict.fromkeys(seen, screen.widgets))
    lesson = training_sequences(told, form, window=WINDOW, delta=DELTA, frames=frames.__getitem__)
    first = next(iter(seen))
    exercise = pointing_sequence(first, seen[first], screen.widgets, form, rng)
    return [*lesson, *([exercise] if exercise else [])]


def _try(policy: PolicyModel, rng: random.Random) -> tuple[float, float]:
    """Shares of first replies that name the right button and that click in it."""
    runner = Runner(policy)
    targets = {}
    for number in range(TRIED):
        screen = make_screen(SMALL, rng)
        instruction, (target, *_) = make_task(screen, rng)
        targets[str(number)] = target
        stream = TokenStream(policy.format, system_prompt="", instruction=instruction, placeholder="")
        context = Context(window=WINDOW, delta=DELTA)
        context.observe(screen.draw())
        runner.add(_request(policy, str(number), stream, context, temperature=0.0))
    named = hit = 0
    while runner.has_work:
        for name, result in runner.step():
            target = targets[name]
            thought, _, action = policy.format.decode_reply(result.sampled_ids).rpartition("\n")
            named += thought == f"# {target.name}"
            verb, *numbers = action.split()
            if verb == "click" and len(numbers) == 2:
                x, y = map(int, numbers)
                hit += target.left <= x < target.right and target.top <= y < target.bottom
    return named / TRIED, hit / TRIED
