"""What verify has looked at in a file, as it is told. No torch here."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a function that has to do with AMP is to verify."""

    STEP = "step"  # a training step, which is run
    PART = "part"  # run as a part of one, here or in another file
    NONE = "none"  # nothing is trained in it
    HIDDEN = "hidden"  # it may train, and a step is not in sight


class Look(NamedTuple):
    """A function, or the module, that has to do with AMP: what it is to verify, and why."""

    name: str
    row: int
    kind: Kind
    why: str


class Looked(NamedTuple):
    """What was seen of a file: its functions that have to do with AMP, and the files with steps that it leads to."""

    looks: list[Look]
    follow: list[str]
    read: list[str]  # the other files of the project that were read for it
    unread: dict[str, str]  # those that could not be read, with why
    names_amp: bool = False  # something of AMP is named in it, as `custom_fwd` or `is_autocast_enabled`


NOTHING = Looked([], [], [], {})
