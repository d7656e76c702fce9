"""Desktop images: a definition in a folder becomes a root filesystem on disk, once.

::

    load_profile("light") -> Profile -- build_image --> images_root/light-<digest>/{root/, manifest.json} -> Image
                                `-- ImageCache.find --------------------------------------------------------'

An image is complete or absent, and its digest covers its definition and the version of every package in it.
"""

from sandbox.image.build import build_image
from sandbox.image.cache import ImageCache
from sandbox.image.definition import Profile, ProfileFile, load_profile, profile_names
from sandbox.image.drift import Drift, check_drift
from sandbox.image.manifest import Image
from sandbox.image.progress import BuildProgress, Phase

__all__ = [
    "BuildProgress",
    "Drift",
    "Image",
    "ImageCache",
    "Phase",
    "Profile",
    "ProfileFile",
    "build_image",
    "check_drift",
    "load_profile",
    "profile_names",
]
