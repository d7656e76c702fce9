"""Every template of the built-in packs: its bundles are sound as far as that can be seen without a desktop."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import EntryPoint

import pytest

from agent.policies.script import WaitActive, WaitWindow
from verigen.bundle import Bundle
from verigen.errors import VerigenError
from verigen.gates.g0_schema import check_bundle
from verigen.packs import Draw, SkillPack, Template, content_key, load_packs
from verigen.packs import protocol as packs_protocol
from verigen.packs.compose import FRAME, SCREEN, WORK_HEIGHT
from verigen.task import PlaceWindowStep

TEMPLATES = {template.name: template for pack in load_packs() for template in pack.templates}
NUM_DRAWS = 6


def drawn(template: Template) -> list[Bundle]:
    return [template.make(Draw(f"{template.name} {number}")) for number in range(NUM_DRAWS)]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_makes_bundles_that_pass_g0(name: str) -> None:
    for bundle in drawn(TEMPLATES[name]):
        gate = check_bundle(bundle)
        assert gate.passed, gate.detail
        assert bundle.alternatives
        assert len(bundle.negatives) >= 4
        assert bundle.task.tags["template"] == name


@pytest.mark.parametrize("name", TEMPLATES)
def test_its_tasks_are_short_and_fit_the_small_screen(name: str) -> None:
    for bundle in drawn(TEMPLATES[name]):
        turns = [step for step in bundle.oracle if not isinstance(step, WaitWindow | WaitActive)]
        assert 2 <= len(turns) <= 8 * len(bundle.task.skills)
        assert bundle.task.desktop == SCREEN
        assert len(bundle.task.instruction) <= 110 * len(bundle.task.skills) + 90
        for step in bundle.task.setup:
            if isinstance(step, PlaceWindowStep) and step.width is not None and step.height is not None:
                assert 0 <= step.x <= SCREEN.width - step.width - FRAME[0]
                assert 0 <= step.y <= WORK_HEIGHT - step.height - FRAME[1]


@pytest.mark.parametrize("name", TEMPLATES)
def test_it_is_a_function_of_its_draw_and_gives_varied_tasks(name: str) -> None:
    first, again = drawn(TEMPLATES[name]), drawn(TEMPLATES[name])
    assert [bundle.id for bundle in first] == [bundle.id for bundle in again]
    assert len({content_key(bundle) for bundle in first}) == NUM_DRAWS
    places = [step for bundle in first for step in bundle.task.setup if isinstance(step, PlaceWindowStep)]
    assert len({(step.app, step.x, step.y) for step in places}) > NUM_DRAWS // 2


def test_the_place_of_a_window_is_not_part_of_what_a_task_is() -> None:
    """Two draws that differ in nothing but the place are one task: another place must not make a held-out task."""
    template = TEMPLATES["galculator/square-root"]
    found: dict[str, set[tuple[int, int]]] = {}
    for number in range(300):
        bundle = template.make(Draw(str(number)))
        (place,) = [step for step in bundle.task.setup if isinstance(step, PlaceWindowStep)]
        found.setdefault(bundle.seed_state, set()).add((place.x, place.y))
    assert len(found) < 60  # no more than there are roots to take
    assert max(map(len, found.values())) > 1


def test_the_packs_hold_what_they_promise() -> None:
    bundles = [template.make(Draw(name)) for name, template in TEMPLATES.items()]
    assert len({app for bundle in bundles for app in bundle.task.apps}) >= 4
    assert len({skill for bundle in bundles for skill in bundle.task.skills}) >= 12
    sizes = Counter(len(bundle.task.skills) for bundle in bundles)
    assert sizes[2] >= 5
    assert sizes[3] >= 2
    assert sum(len(bundle.task.apps) > 1 for bundle in bundles) >= 5
    assert any(len(bundle.task.skills) > 1 and len(bundle.task.apps) == 1 for bundle in bundles)
    refusing = {bundle.task.apps[0] for bundle in bundles if not bundle.task.feasible}
    assert len(refusing) >= 4


class Stranger:
    """A pack of another distribution."""

    name = "stranger"
    version = "7"
    templates = (Template(name="stranger/one", make=TEMPLATES["mousepad/tab-size"].make),)


STRANGER = Stranger()


def installed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint(name="stranger", value=value, group=packs_protocol.ENTRY_POINTS)
    monkeypatch.setattr(packs_protocol, "entry_points", lambda group: [point])


def test_an_installed_pack_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verigen.packs.words.STRANGER", STRANGER, raising=False)
    installed(monkeypatch, "verigen.packs.words:STRANGER")
    assert "stranger" in [pack.name for pack in load_packs()]
    (pack,) = load_packs(["stranger"])
    assert isinstance(pack, SkillPack)
    assert pack.templates[0].make(Draw("x")).task.apps == ("mousepad",)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no.such.module:PACK", "cannot be loaded"),
        ("verigen.packs.words:ITEMS", "is not a SkillPack"),
        ("verigen.packs.mousepad:PACK", "two skill packs have the name 'mousepad'"),
    ],
)
def test_a_pack_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    installed(monkeypatch, value)
    with pytest.raises(VerigenError, match=said):
        load_packs()


def test_an_unknown_pack_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="no skill pack 'gimp'; there are galculator, mousepad"):
        load_packs(["gimp"])
