"""`frontdesk image`: desktop images, built once and cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.command import Json, command, group
from cli.hubs import Backend
from cli.output import MARKS, Output, age, size, table

if TYPE_CHECKING:
    from sandbox.image import BuildProgress, Image
    from store import Home

__all__ = ["app", "ensure_image", "require_image"]

app = group("Desktop images: root filesystems that desktops start from, built once and cached.")


@command(
    app,
    "build",
    examples={
        "frontdesk image build light": "the small one; minutes the first time, then at once",
        "frontdesk image build ./my-profile": "from a folder of your own",
        "frontdesk image build light --backend docker": "and give it to this machine's Docker daemon",
    },
)
def build(
    profile: Annotated[str, typer.Argument(help="A profile's name, or the folder of one (with a slash).")] = "light",
    backend: Annotated[Backend, typer.Option(help="Who starts desktops from it; docker is sent a copy.")] = "local",
    json: Json = False,
) -> None:
    """Build a desktop image, unless it is there already.

    With `--backend docker` the same files are then imported into the Docker daemon, under the image's digest.

    Packages come from this machine's own Debian sources; nothing is fetched when a desktop boots. An interrupted
    build leaves nothing but its downloads, so the next one is quicker.
    """
    from store import Home

    output = Output(json=json)
    home = Home.default().ensure()
    image, built = ensure_image(output, home, profile)
    result: dict[str, object] = {"built": built, "image": _row(image)}
    text = (
        f"{MARKS['ok']} {image.profile} [dim]{image.digest[:12]}[/dim]"
        f"  {size(image.size_bytes)}, {len(image.packages)} packages{'' if built else ' (was there already)'}"
    )
    if backend == "docker":
        name, imported = _import(output, home, image)
        result["docker"] = {"imported": imported, "name": name}
        text += f"\n{MARKS['ok']} in docker as {name}{'' if imported else ' (was there already)'}"
    output.result(result, text)


@command(app, "list", examples={"frontdesk image list": "images, and the profiles that have none yet"})
def list_images(json: Json = False) -> None:
    """List the images on this machine, and the profiles without one."""
    import time

    from sandbox.image import ImageCache, load_profile, profile_names
    from store import Home

    output = Output(json=json)
    cache = ImageCache(Home.default().images)
    profiles = {name: load_profile(name) for name in profile_names()}
    current = {image.digest for profile in profiles.values() if (image := cache.find(profile))}
    images = cache.list()
    unbuilt = [name for name, profile in profiles.items() if cache.find(profile) is None]
    rows = [
        (
            image.profile,
            f"[dim]{image.digest[:12]}[/dim]",
            size(image.size_bytes),
            f"{age(time.time() - image.created_at)} ago",
            "[green]current[/green]" if image.digest in current else "[yellow]of an earlier definition[/yellow]",
        )
        for image in images
    ] + [(name, "", "", "", f"not built: [cyan]frontdesk image build {name}[/cyan]") for name in unbuilt]
    output.result(
        {"images": [_row(image) | {"current": image.digest in current} for image in images], "unbuilt": unbuilt},
        table(["Profile", "Digest", ">Size", ">Built", "State"], rows),
    )


def require_image(output: Output, home: Home, name: str, backend: Backend) -> Image:
    """The image of a profile, where the backend can start desktops from it: built if need be, never imported unasked.

    Raises:
        MissingRequirement, ImageError: no Docker daemon, or it lacks the image; the message has the fix.
    """
    image, _ = ensure_image(output, home, name)
    if backend == "docker":
        from sandbox.backends.docker_engine import connect
        from sandbox.image.docker import require_imported

        engine = connect()
        try:
            require_imported(engine, image, name)
        finally:
            engine.close()
    return image


def ensure_image(output: Output, home: Home, name: str) -> tuple[Image, bool]:
    """The image of a profile, built with progress if need be; the flag says whether it was."""
    from sandbox.image import ImageCache, build_image, load_profile

    profile = load_profile(name)
    if (image := ImageCache(home.images).find(profile)) is not None:
        return image, False
    with output.progress(f"Building the {profile.name} image", total=100) as progress:

        def report(news: BuildProgress) -> None:
            progress.now(news.message)
            progress.reach(news.percent)

        return build_image(profile, home.images, progress=report), True


def _import(output: Output, home: Home, image: Image) -> tuple[str, bool]:
    """Give an image to the Docker daemon; its name there, and whether it was new."""
    from sandbox.backends.docker_engine import connect
    from sandbox.image import ImageCache
    from sandbox.image.docker import docker_image, import_image

    engine = connect()
    try:
        with output.progress(f"Importing the {image.profile} image into docker", total=100) as progress:
            imported = import_image(
                engine,
                ImageCache(home.images),
                image,
                progress=lambda sent: progress.reach(min(100.0, 100 * sent / image.size_bytes)),
            )
    finally:
        engine.close()
    return docker_image(image), imported


def _row(image: Image) -> dict[str, object]:
    return {
        "profile": image.profile,
        "digest": image.digest,
        "size_bytes": image.size_bytes,
        "packages": len(image.packages),
        "created_at": image.created_at,
        "root": str(image.root),
    }
