"""How keys are made of others, and taken apart: `self3.nets[0].scaler` is an attribute of an item of an attribute."""

from __future__ import annotations

import re

_SIGNS = re.compile(r"[.:\[]")


def attribute_of(owner: str, name: str) -> str:
    """The key of an attribute."""
    return f"{owner}.{name}"


def item_of(container: str, place: object) -> str:
    """The key of an item."""
    return f"{container}[{place}]"


def is_item(key: str) -> bool:
    """Whether a key is one of an item."""
    return key.endswith("]")


def is_attribute(key: str, owner: str) -> bool:
    """Whether a key is one of an attribute of an object, or of what such an attribute has."""
    return key.startswith(f"{owner}.")


def is_named(key: str, name: str) -> bool:
    """Whether a key is one of an attribute of that name."""
    return key.endswith(f".{name}")


def is_part(key: str, whole: str) -> bool:
    """Whether an object is an attribute or item of another one, or of what that has, by their keys."""
    return key.startswith((f"{whole}.", f"{whole}["))


def contains(whole: str, part: str) -> bool:
    """Whether an object is another one, or has it as a part."""
    return part == whole or is_part(part, whole)


def overlap(one: str, other: str) -> bool:
    """Whether two objects are one, or one is a part of the other, going by their keys."""
    return contains(one, other) or contains(other, one)


def owner_of(key: str) -> str:
    """The key of the object whose attribute a key is; "" where it is none."""
    return key.rpartition(".")[0]


def root_of(key: str) -> str:
    """The variable with which a key begins, or the `self` of a class."""
    return key.partition(".")[0]


def last_name(key: str) -> str:
    """The name of a variable or of an attribute; of an item what stands in its brackets."""
    return _SIGNS.split(key)[-1]


def name_in_scope(key: str) -> str:
    """The name of a variable, without the number of its scope."""
    return key.partition(":")[2]


def attribute_of_self(key: str) -> str:
    """The name of an attribute of `self`, by its key."""
    return key.partition(".")[2]


def moved(key: str, old: str, new: str) -> str:
    """The key that an object, or a part of it, has where the object goes by another key."""
    return new + key[len(old) :]
