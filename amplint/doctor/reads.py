"""Numbers that a program reads, and that are not finite: which of them are losses.

A program reads its loss, and it reads metrics: the lowest logit, where classes are masked, is meant to be infinite.
Only what a backward pass was run from, or would have been, is a loss. So a number that is read before the backward
pass of its step waits until it is known what the step does with it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch

from amplint.doctor.capture import RootCall, tensors_in
from amplint.doctor.diagnosis import Kind
from amplint.doctor.findings import Finding, Place
from amplint.doctor.graph import graph_nodes, next_node, number_of
from amplint.doctor.readings import may_be_bad

_ROOTS = 16  # losses that have gone backward, which are remembered
_WAITING = 8  # reads that wait at a time
_PATIENCE = 4  # backward passes after which a read that none of them has to do with is forgotten
_METRICS = 2  # reads of one number that were none of a loss, after which it is looked at no more
_MOST = 12  # reads of a run that are looked at
_DEEP = 3  # nodes below one by which it is recognized in another step
_LIKES = 2_000  # nodes of a graph that are recognized

_Like = tuple[Any, ...]  # the names of a node and of those next to it


class Read(NamedTuple):
    """A number that was read and is not finite.

    Attributes:
        number: Of the node of the graph that has made it.
        nodes: The numbers of those that it depends on, without casts of parameters; none where it needs no look.
        like: By what it is recognized in another step.
        place: The line that has read it.
    """

    number: int
    nodes: frozenset[int]
    like: _Like
    place: Place | None


class Asked(NamedTuple):
    """A read, of what kind the number is, and what is to be reported if it is one of a loss."""

    read: Read
    kind: Kind
    finding: Finding


class Reads:
    """The reads that wait for what becomes of them."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Asked, int]] = []  # each with the backward passes that it may still wait for
        self._roots: deque[int | None] = deque(maxlen=_ROOTS)
        self._next = 0  # the number of the first node after the last backward pass had begun
        self._metrics: Counter[tuple[Place | None, _Like]] = Counter()
        self._likes: set[_Like] = set()  # of losses, and of what they depend on
        self._looks = 0

    def read(self, tensor: torch.Tensor, place: Place | None) -> Read | None:
        """What was read; None where autograd doesn't number its nodes."""
        number, like = number_of(tensor.grad_fn), _like(tensor.grad_fn)
        if number is None:
            return None
        is_open = self._looks < _MOST and self._metrics[place, like] < _METRICS
        nodes = (number_of(node) for node in graph_nodes([tensor]) if not _is_of_parameter(node)) if is_open else ()
        return Read(number, frozenset(each for each in nodes if each is not None), like, place)

    def is_root(self, read: Read) -> bool:
        """Whether it is a loss that has gone backward."""
        return read.number in self._roots

    def is_worth_a_look(self, read: Read, open_calls: Sequence[RootCall]) -> bool:
        """Whether it may be a loss that is still to go backward, and none that waits has to do with it."""
        if not read.nodes or len(self._waiting) >= _WAITING:
            return False
        if any(read.number in other.nodes or other.number in read.nodes for (other, _, _), _ in self._waiting):
            return False
        if not self._is_of_this_step(read, open_calls):
            self._metrics[read.place, read.like] += 1
            return False
        self._looks += 1
        return True

    def _is_of_this_step(self, read: Read, open_calls: Sequence[RootCall]) -> bool:
        """Whether it was computed since the last backward pass, if only by the last of the calls of modules."""
        if all(each >= self._next for each in read.nodes):
            return True
        outputs = (number_of(each.grad_fn) for call in open_calls for each in tensors_in(call.output))
        return any(each in read.nodes for each in outputs)

    def wait(self, asked: Asked) -> None:
        """Keep it until it is known what it is."""
        self._waiting.append((asked, _PATIENCE))

    def backward(self, roots: Sequence[torch.Tensor], losses: Sequence[torch.Tensor]) -> Iterator[Asked]:
        """A backward pass begins. Yields the reads that were of a loss.

        Args:
            roots: What it begins from.
            losses: The same, as they were before they were scaled.
        """
        self._roots.extend(number_of(each.grad_fn) for each in (*roots, *losses))
        self._next = next_node()
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        nodes = {number_of(node) for node in graph_nodes(roots)}
        likes = set(_likes(roots))
        for asked, patience in waiting:
            read = asked.read
            if read.number in nodes:
                if asked.kind is Kind.LOSS or any(may_be_bad(each, waits=True) for each in losses):
                    yield asked  # else the program has taken out of it what is not finite
            elif not nodes.isdisjoint(read.nodes):  # its forward pass goes backward without it
                self._metrics[read.place, read.like] += 1
            elif read.like in likes:  # what goes backward in this step, in one that was left out
                yield asked
            elif patience > 1:
                self._waiting.append((asked, patience - 1))

    def learn(self, roots: Sequence[torch.Tensor]) -> None:
        """Remember what losses look like: asked for now and then."""
        self._likes.update(_likes(roots))

    def end(self, *, is_training: bool, has_failed: bool) -> Iterator[Asked]:
        """The program is over. Yields the reads that were of a loss which has not gone backward.

        Args:
            is_training: Whether the program has made an optimizer.
            has_failed: Whether it was ended by an exception, or with an exit code of failure.
        """
        for asked, patience in self._waiting:
            is_last = patience == _PATIENCE
            if asked.read.like in self._likes or (is_last and (has_failed or (is_training and not self._roots))):
                yield asked
        self._waiting.clear()


def is_in(number: int, roots: Sequence[torch.Tensor]) -> bool:
    """Whether losses depend on the node of a number."""
    return any(number_of(node) == number for node in graph_nodes(roots))


def _is_of_parameter(node: Any) -> bool:
    """Whether a node is a parameter, or a cast of one: autocast keeps these over several forward passes."""
    if hasattr(node, "variable"):
        return True
    nexts: Collection[Any] = [each for each, _ in node.next_functions if each is not None]
    return node.name().startswith("ToCopy") and all(hasattr(each, "variable") for each in nexts)


def _likes(roots: Sequence[torch.Tensor]) -> Iterator[_Like]:
    return map(_like, islice(graph_nodes(roots), _LIKES))


def _like(node: Any, depth: int = _DEEP) -> _Like:
    if not depth:
        return (node.name(),)
    return (node.name(), *(_like(each, depth - 1) for each, _ in node.next_functions if each is not None))
