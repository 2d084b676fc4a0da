"""How keys are spelled: how they are made of others, and taken apart.

A key begins with a variable and the number of its scope (`4:model`), with the `self` of a class by the id of that one
(`self3`), or with the id of a call or display that has no name. `self3.nets[0].scaler` is an attribute of an item of an
attribute. Keys are texts, which Python hashes once: paths look them up all the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.model.syntax import ir

_SIGNS = re.compile(r"[.:\[]")
_INTO = re.compile(r"[.\[]")
_VARIABLE = re.compile(r"(\d+):(\w+)")
_OWN = re.compile(r"self\d+\.\w+")
_SELF = "self"
# How the keys of objects begin that are assigned to nothing, and of displays that have no name: the id follows.
_MADE, _UNNAMED = "new", "#"


def own_self(cls: ir.Class) -> str:
    """The key of `self` in the methods of a class."""
    return f"{_SELF}{cls.id}"


def self_id(key: str) -> int | None:
    """The id of the class whose `self` a key is; None for another key."""
    number = key.removeprefix(_SELF)
    return int(number) if number != key and number.isdecimal() else None


def is_of_self(key: str) -> bool:
    """Whether a key begins with the `self` of a class."""
    return key.startswith(_SELF)


def is_own_attribute(key: str) -> bool:
    """Whether a key is one of an attribute of `self`."""
    return _OWN.fullmatch(key) is not None


def variable_in(scope: int, name: str) -> str:
    """The key of a variable of a numbered scope."""
    return f"{scope}:{name}"


def variable_parts(key: str) -> tuple[int, str] | None:
    """The number of the scope and the name of a variable, by its key; None where it is none."""
    found = _VARIABLE.fullmatch(key)
    return (int(found[1]), found[2]) if found is not None else None


def made_key(number: int) -> str:
    """The key of an object that is assigned to nothing, by the id of the call that makes it."""
    return f"{_MADE}{number}"


def made_id(key: str) -> int | None:
    """The id of the call that makes an object that is assigned to nothing, by its key; None for another key."""
    number = key.removeprefix(_MADE)
    return int(number) if number != key and number.isdecimal() else None


def unnamed_key(number: int) -> str:
    """The key of a display that has no name, by its id."""
    return f"{_UNNAMED}{number}"


def unnamed_id(key: str) -> int | None:
    """The id of the display that has no name, by its key; None where the key is another one."""
    return int(key.removeprefix(_UNNAMED)) if key.startswith(_UNNAMED) else None


def attribute_of(owner: str, name: str) -> str:
    """The key of an attribute."""
    return f"{owner}.{name}"


def part_of(base: str, place: object) -> str:
    """The path of an item. One that is a name is that attribute, too: `cfg["amp"]` and `cfg.amp` are one setting."""
    if isinstance(place, str) and place.isidentifier():
        return attribute_of(base, place)
    return item_of(base, repr(place))


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


def wholes(key: str) -> Iterator[str]:
    """The keys of which an object is an attribute or item, by whatever steps, and its own."""
    yield from (key[: sign.start()] for sign in _INTO.finditer(key))
    yield key


class KeySet:
    """Some keys, for the question whether another one overlaps one of them."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = frozenset(keys)
        self._wholes = {whole for key in self._keys for whole in wholes(key)}
        self._known: dict[str, bool] = {}

    def overlaps(self, key: str) -> bool:
        """Whether an object is one of those, has one as a part, or is a part of one."""
        if key not in self._known:
            self._known[key] = key in self._wholes or any(whole in self._keys for whole in wholes(key))
        return self._known[key]


def owner_of(key: str) -> str:
    """The key of the object whose attribute a key is; "" where it is none."""
    return key.rpartition(".")[0]


def root_of(key: str) -> str:
    """The variable with which a key begins, or the `self` of a class."""
    return key.partition(".")[0]


def last_name(key: str) -> str:
    """The name of a variable or of an attribute; of an item what stands in its brackets."""
    return _SIGNS.split(key)[-1]


def attribute_of_self(key: str) -> str:
    """The name of an attribute of `self`, by its key."""
    return key.partition(".")[2]


def moved(key: str, old: str, new: str) -> str:
    """The key that an object, or a part of it, has where the object goes by another key."""
    return new + key[len(old) :]
