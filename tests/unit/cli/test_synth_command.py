"""`frontdesk synth` where it needs no desktop: what it refuses, and what it does when there is nothing left to do."""

from __future__ import annotations

import pytest

from sandbox.image import ImageCache
from store import Catalog, Home
from tests.support.command_line import CommandLine
from verigen.packs import Draw, load_packs, own_split
from verigen.proof import store_bundle


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("synth --split test", "there is no split 'test'; choose train, validation, held-out"),
        ("synth --packs mousepad,gimp", "there is no skill pack 'gimp'; there are galculator, mousepad"),
        ("synth --count 0", "Invalid value"),
    ],
)
def test_bad_input_is_refused_with_what_there_is(frontdesk: CommandLine, line: str, said: str) -> None:
    ran = frontdesk(line)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())


def test_a_generated_task_in_the_catalog_is_listed_in_its_own_split(frontdesk: CommandLine) -> None:
    template = load_packs(["terminal"])[0].templates[0]
    bundle = next(
        made for number in range(200) if own_split(made := template.make(Draw(f"own {number}"))) == "validation"
    )
    with Catalog.open(Home.default().ensure().catalog_url) as catalog:
        store_bundle(catalog, bundle, split="validation")
    listed = {task["id"] for task in frontdesk("tasks list --split validation --json").json["tasks"]}
    assert bundle.id in listed
    assert bundle.id not in {task["id"] for task in frontdesk("tasks list --split train --json").json["tasks"]}


def test_nothing_is_built_or_booted_for_a_mistake(frontdesk: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageCache, "find", lambda *args: pytest.fail("the image was looked for"))
    assert frontdesk("synth --split test").code == 2
