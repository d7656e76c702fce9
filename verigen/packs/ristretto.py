"""The picture viewer: its switches, and finding one picture among others. Pictures are SVG, written as text."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.policies.script import ScriptStep, WaitActive
from verigen.bundle import Bundle
from verigen.packs.compose import Fact, Miss, Part, Scene, compose
from verigen.packs.do import click, glob_fact, key, keys, xfconf_fact, xfconf_file
from verigen.packs.draw import Draw
from verigen.packs.pack import Pack
from verigen.packs.thunar import NO_ACTIONS
from verigen.packs.words import SHAPES
from verigen.task import TextFileStep

__all__ = ["APP", "PACK", "Album", "delete_picture"]

APP = "ristretto"
SWITCHES = {
    "Show Toolbar": "/window/toolbar/show",
    "Show Status Bar": "/window/statusbar/show",
}
QUIET: dict[str, str | bool] = {"/errors/missing-thumbnailer": False, "/window/thumbnails/show": False}
MENU_HEIGHT = 205
"""The View menu and what is above it, pixels."""
COLOURS = ("#c0392b", "#2980b9", "#27ae60", "#f39c12", "#8e44ad")


@dataclass(frozen=True, kw_only=True, slots=True)
class Album:
    """Pictures, the first of which is shown, and the viewer's switches."""

    pictures: tuple[str, ...]
    """Names without ending, in the order of the viewer."""
    switches: dict[str, bool]

    @classmethod
    def drawn(cls, draw: Draw) -> Album:
        """Three pictures."""
        return cls(pictures=tuple(sorted(draw.some(SHAPES, 3))), switches={name: draw.coin() for name in SWITCHES})

    @property
    def fact(self) -> Fact:
        """That exactly these pictures are there."""
        return glob_fact("pictures", "Pictures/*", *(f"{name}.svg" for name in self.pictures))

    @property
    def scene(self) -> Scene:
        """The viewer with the first picture."""
        path = ".config/xfce4/xfconf/xfce-perchannel-xml/ristretto.xml"
        values: dict[str, str | bool] = {SWITCHES[name]: on for name, on in self.switches.items()}
        return Scene(
            app=APP,
            argv=(APP, f"Pictures/{self.pictures[0]}.svg"),
            title=self.pictures[0],
            size=(250, 165),
            takes=(250, MENU_HEIGHT),
            before=(
                TextFileStep(path=path, text=xfconf_file(APP, {**QUIET, **values})),
                NO_ACTIONS,
                *(
                    TextFileStep(path=f"Pictures/{name}.svg", text=_drawing(COLOURS[index]))
                    for index, name in enumerate(self.pictures)
                ),
            ),
            keeps=(self.fact, *(xfconf_fact(APP, SWITCHES[name], on) for name, on in self.switches.items())),
        )


def _drawing(colour: str) -> str:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="120" height="80">'
        f'<rect width="120" height="80" fill="#ffffff"/><circle cx="60" cy="40" r="30" fill="{colour}"/></svg>\n'
    )


def delete_picture(album: Album, at: int) -> tuple[Part, Album]:
    """Delete one of the pictures; gives the part and the pictures then."""
    name = album.pictures[at]
    done = replace(album, pictures=tuple(one for one in album.pictures if one != name))
    wrong = (at + 1) % len(album.pictures)
    go = {index: keys(*["page_down"] * index) for index in range(len(album.pictures))}
    confirm = (click(APP, "push button", "OK"), WaitActive(app=APP))
    part = Part(
        skill="delete-picture",
        app=APP,
        asks=f"find the picture {name}.svg in the picture viewer and delete it",
        steps=(*go[at], key("delete"), *confirm),
        other=(*keys(*["page_up"] * ((len(album.pictures) - at) % len(album.pictures))), key("delete"), *confirm),
        facts=(done.fact,),
        misses=(
            Miss(name="another picture", why="the wrong one is gone", steps=(*go[wrong], key("delete"), *confirm)),
            Miss(
                name="cancelled",
                why="it is still there",
                steps=(*go[at], key("delete"), click(APP, "push button", "Cancel")),
            ),
            Miss(name="not confirmed", why="the question is still open", steps=(*go[at], key("delete"))),
            Miss(name="only found", why="it is still there", steps=go[at]),
        ),
    )
    return part, done


def _switch_part(name: str, on: bool, shy: str) -> Part:
    flip = {one: (click(APP, "menu", "View"), click(APP, "check menu item", one)) for one in SWITCHES}
    downs = list(SWITCHES).index(name)
    return Part(
        skill="viewer-switch",
        app=APP,
        asks=f"turn {'on' if on else 'off'} {name} in the picture viewer's View menu",
        steps=flip[name],
        other=(key("alt", "v"), *keys(*["down"] * downs), key("enter")),
        facts=(xfconf_fact(APP, SWITCHES[name], on),),
        misses=(
            Miss(name="the other switch", why=f"{shy} is switched instead", steps=flip[shy]),
            Miss(name="twice", why="it is as it was", steps=(*flip[name], *flip[name])),
            Miss(name="both", why=f"{shy} must stay as it is", steps=(*flip[name], *flip[shy])),
            Miss(name="only looked", why="nothing was switched", steps=(click(APP, "menu", "View"), key("escape"))),
        ),
    )


def _switched(album: Album, draw: Draw) -> Part:
    name, shy = draw.some(tuple(SWITCHES), 2)
    return _switch_part(name, not album.switches[name], shy)


def _viewer_switch(template: str, draw: Draw) -> Bundle:
    album = Album.drawn(draw)
    return compose(template, [album.scene], [_switched(album, draw)], draw)


def _make_sure(template: str, draw: Draw) -> Bundle:
    """Stopping: one of the two switches is right already, and must stay so."""
    album = Album.drawn(draw)
    target, right = draw.some(tuple(SWITCHES), 2)
    on = draw.coin()
    album = replace(album, switches={**album.switches, target: not on, right: on})
    part = replace(_switch_part(target, on, right), skill="viewer-make-sure")
    names = [target, right] if draw.coin() else [right, target]
    says = f"Make sure that {names[0]} and {names[1]} are both turned {'on' if on else 'off'} in the View menu."
    return compose(template, [album.scene], [part], draw, says=says)


def _delete_picture(template: str, draw: Draw) -> Bundle:
    album = Album.drawn(draw)
    part, _ = delete_picture(album, draw.number(0, 2))
    return compose(template, [album.scene], [part], draw)


def _delete_then_switch(template: str, draw: Draw) -> Bundle:
    album = Album.drawn(draw)
    deleted, _ = delete_picture(album, draw.number(0, 2))
    return compose(template, [album.scene], [deleted, _switched(album, draw)], draw)


def _no_such_picture(template: str, draw: Draw) -> Bundle:
    """Refusing: the picture is not there."""
    album = Album.drawn(draw)
    wanted = draw.pick([name for name in SHAPES if name not in album.pictures])
    look: tuple[ScriptStep, ...] = keys("page_down", "page_down")
    one, two = (delete_picture(album, at)[0].steps for at in draw.some((0, 1, 2), 2))
    part = Part(
        skill="refuse-picture",
        app=APP,
        asks=f"find the picture {wanted}.svg in the picture viewer and delete it. If there is no such picture, say "
        "that it cannot be done and change nothing",
        steps=look,
        other=keys("page_up", "page_up"),
        misses=(
            Miss(name="deletes one", why="a picture is gone", steps=one),
            Miss(name="deletes another", why="a picture is gone", steps=two),
        ),
        about={"picture": wanted},
    )
    return compose(template, [album.scene], [part], draw, feasible=False)


PACK = Pack(
    name="ristretto",
    version="1",
    makers={
        "switch": _viewer_switch,
        "make-sure": _make_sure,
        "delete": _delete_picture,
        "delete-then-switch": _delete_then_switch,
        "no-such-picture": _no_such_picture,
    },
)
