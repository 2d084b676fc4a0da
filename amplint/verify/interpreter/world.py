"""What an interpreted program trains: models made of parts, optimizers, scalers and batches of the bench."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from amplint.model.objects.key_parts import is_part
from amplint.model.syntax import ir
from amplint.verify.bench.bench import seed
from amplint.verify.bench.instrument import open_regions
from amplint.verify.interpreter.standins import COPY, Instance, Unknown, made_of, parameters_in, text_of

WIDTH, HIDDEN, ROWS, BATCHES = 32, 64, 64, 8
LOSS = 16.0  # the factor of a loss: with it gradients are larger than the bounds that programs clip to
INIT_SCALE = 64.0  # of a scaler, so that it can grow a few times without an overflow
_LOWER, _LOWEST_SCALE = 16.0, INIT_SCALE / 16**3  # by which factor it comes down between runs, and how far
_MOST_ROOTS = 16  # losses that are known to have gone back
LEARNING_RATE, LOWEST_RATE = 0.01, 0.001
_WORDS = re.compile(r"optimizers?|optim|opt|models?|networks?|net|self|[^a-z0-9]+")
_MADE_IN = re.compile(r" \([^)]*\)")  # tells an object from others of the same name
# What a function is called that leaves the dtypes of a model's parameters as they are.
_KEEPS_DTYPES = re.compile(
    r"(?i)optim|sched|ema|load|save|log|print|count|num|info|summary|len|parallel|^ddp|compile|forward|eval|train_|norm|freez|trainable"
)


class Birth(Enum):
    """What tensor an unseen call returns: a loss, or what one is made of."""

    LOSS = "loss"
    OUTPUT = "output"


class Use(Enum):
    """What something of the program is used as in a run."""

    CALLED = "a model that is run"
    NET = "something that is asked for parameters"
    OPTIMIZER = "an optimizer"


@dataclass
class Knowledge:
    """What runs of a step have shown about it, for the next run: a value's use comes behind its making."""

    born: dict[ir.Call, Birth] = field(default_factory=dict)  # unseen calls that return tensors
    called: dict[str, None] = field(default_factory=dict)  # models that were run, by their texts
    nets: dict[str, None] = field(default_factory=dict)  # what is asked for parameters, by its text
    optimizers: dict[str, tuple[str, ...] | None] = field(default_factory=dict)  # with the nets that they were made of
    made: dict[str, frozenset[str]] = field(default_factory=dict)  # nets that the program makes, and of what
    there: set[str] = field(default_factory=set)  # what can't be None: its methods are called, whatever it is
    tools: set[str] = field(default_factory=set)  # what is a scaler or an optimizer, or None
    always: set[str] = field(default_factory=set)  # those of them that are never None, as methods are called anyway
    leaves: set[str] = field(default_factory=set)  # values out of sight whose gradients are asked for: a model's inputs
    stale: bool = False  # graphs are used behind a step that changes what they were made of
    period: int = 2  # the largest number of micro steps that a condition counts
    exponents: set[ir.Call] = field(default_factory=set)  # unseen calls whose results are exponentiated: no losses
    init_scale: float = INIT_SCALE  # of the scalers
    constants: set[ir.Call] = field(default_factory=set)  # unseen calls whose results outlive a step: no outputs
    cleared: bool = False  # on this path whoever calls the step clears gradients, as the step doesn't
    freezes: bool = True  # whether a parameter that the program freezes is frozen here
    _owners: dict[str, set[str]] = field(default_factory=dict)  # by the text of what unseen calls return
    _late: dict[str, set[str]] = field(default_factory=dict)  # those that only the next run has
    changed: bool = False
    used: set[tuple[Use, str]] = field(default_factory=set)  # of nets, optimizers and calls, in the runs since `begin`

    def begin(self) -> None:
        """Runs with this knowledge begin."""
        if self._late:
            self._owners |= {each: self._owners[each] | late for each, late in self._late.items()}
            self._late = {}
            self.forget_objects()
        self.changed = False
        self.used = set()

    def is_exact(self) -> bool:
        """Whether those runs had all models and optimizers that are known."""
        return len(self.used) == len(self.nets) + len(self.optimizers) + len(self.called)

    def forget_objects(self) -> None:
        """Another path makes other models and optimizers."""
        self.nets, self.optimizers, self.called, self.made = {}, {}, {}, {}
        self.stale = False

    def learn_birth(self, call: ir.Call, what: Birth) -> None:
        """An unseen call returns a loss, or what one is made of."""
        what = Birth.OUTPUT if call in self.exponents else what
        if call in self.constants:
            return
        if self.born.get(call) not in (Birth.LOSS, what):
            self.born[call] = what
            self.changed = True

    def learn_exponent(self, call: ir.Call) -> None:
        """What an unseen call returns is exponentiated: a loss of the bench would be too large for that."""
        self.exponents.add(call)
        if self.born.get(call) is Birth.LOSS:
            self.born[call] = Birth.OUTPUT
            self.changed = True

    def learn_constants(self, calls: set[ir.Call]) -> bool:
        """What these unseen calls return is used behind a step: it has no gradients. Whether there are any."""
        self.constants |= calls
        for each in calls:
            self.born.pop(each, None)
        self.changed = self.changed or bool(calls)
        return bool(calls)

    def learn_cleared(self) -> None:
        """On this path the step clears no gradients, so that whoever calls it does."""
        self.cleared = True
        self.changed = True

    def learn_unfrozen(self) -> None:
        """Nothing is left to train: what the program freezes is less than that, or another model than the bench has."""
        self.freezes = False
        self.changed = True

    def learn_overflow(self) -> bool:
        """A scaler has skipped all steps of a run: the next one begins with a lower scale, unless it is the lowest."""
        if self.init_scale <= _LOWEST_SCALE:
            return False
        self.init_scale /= _LOWER
        self.changed = True
        return True

    def learn_call(self, text: str) -> None:
        """A model is run."""
        self.used.add((Use.CALLED, text))
        if text not in self.called:
            self.called[text] = None
            self.changed = True

    def learn_net(self, text: str) -> None:
        """Something is asked for its parameters."""
        self.used.add((Use.NET, text))
        if text not in self.nets:
            self.nets[text] = None
            self.changed = True

    def owners(self, parameters: str, given: Iterable[str]) -> set[str]:
        """The models among what an unseen call is given, whose parameters it returns; empty: none is known yet."""
        owners = self._owners.setdefault(parameters, set())
        new = {each for each in given if each in self.nets} - owners
        if new and parameters in self.nets:  # they were taken for a model of their own: the next run begins again
            self._late[parameters] = new
            self.changed = True
        else:
            owners |= new
        return owners

    def learn_optimizer(self, text: str, nets: tuple[str, ...] | None) -> None:
        """An optimizer is used, made of these models' parameters (None: that is out of sight)."""
        self.used.add((Use.OPTIMIZER, text))
        if self.optimizers.get(text, ()) != nets:
            self.optimizers[text] = nets
            self.changed = True

    def learn_leaf(self, text: str) -> None:
        """Gradients are asked for of a value out of sight."""
        if text not in self.leaves:
            self.leaves.add(text)
            self.changed = True

    def learn_period(self, period: int) -> None:
        """So many micro steps make a step."""
        if period > self.period:
            self.period = period
            self.changed = True


class Stage:
    """The bench of one run. A part is Linear(32, 64)-ReLU-Linear(64, 32), a batch has 64 rows and 32 classes."""

    def __init__(self, knowledge: Knowledge, device: str, *, off: bool = False) -> None:
        seed()
        self.off = off  # the reference's
        self.left_out = False  # the reference has left something out
        self.knowledge = knowledge
        self.device = device
        self.own: set[int] = set()  # optimizers, by id, that come from out of sight
        self._trained: dict[torch.optim.Optimizer, Any] = {}  # what says which training it is of
        self._lasting: dict[int, Any] = {}  # by parameters: what says which model's they were last asked for as
        self.made_here: set[int] = set()  # optimizers, by id, that code which is run has made
        self.protected: set[int] = set()  # optimizers, by id, that a scaler unscales or steps
        self.guessed: set[str] = set()  # models that may be any optimizer's
        # After a step, before the next backward, as somebody does whom the step's text doesn't show.
        self.clears_itself = False
        self._used: dict[torch.optim.Optimizer, None] = {}  # whose gradients are cleared then
        # Is told of what is added to tensors in place.
        self.adding: Callable[[torch.Tensor, torch.Tensor], None] = lambda to, what: None
        self.enabled: dict[int, bool] = {}  # by scalers' ids: whether the program enables them
        self._frozen: set[str] = set()  # models
        self._cast: set[str] = set()  # models, to float16
        self.unsure_dtypes: set[str] = set()  # those of them that code out of sight may have cast, or added to
        self._whole: dict[int, bool] = {}  # by parameters: they were last asked for with all of their part
        self.has_frozen = False  # a parameter was frozen
        self.in_float16 = ""  # the first line that runs, in a float16 region and with gradients, what may be a model
        self.unsure_region = ""  # the first line that makes a region whose dtype is out of sight
        self.iteration = 0  # of loops over batches, and calls of the step
        self.outliving: set[ir.Call] = set()  # unseen calls whose results were used in a later iteration's backward
        self._made_in: dict[Any, tuple[ir.Call, int]] = {}  # by what has made them in the graph: results, and when
        self._losses: dict[Any, ir.Call] = {}  # by what has made them in the graph: the unseen calls that return them
        self._gone_back: list[Any] = []  # what has made the losses whose gradients were made, in the graph
        self._settled = frozenset(knowledge.nets)
        self._unowned: set[str] = set()  # models that are run, and that no optimizer is known to have
        self._born = 0
        self._made: list[str] = []
        nets = [each for owned in knowledge.optimizers.values() for each in owned or ()]
        unknown = [text for text, owned in knowledge.optimizers.items() if owned is None]
        self._atoms = list(dict.fromkeys([*nets, *map(_of, unknown)])) or [""]
        self.parts = {atom: _part() for atom in self._atoms}
        self.batches = [(torch.randn(ROWS, WIDTH), torch.randint(0, WIDTH, (ROWS,))) for _ in range(BATCHES)]
        self._net_of = {id(each): atom for atom, part in self.parts.items() for each in part.parameters()}
        interval = max(1, -(-knowledge.period * 2 // 8))
        self.scaler_arguments = {"init_scale": knowledge.init_scale, "growth_interval": interval}

    # --- parameters

    def parts_of(self, net: str) -> list[str]:
        """The parts that a model consists of."""
        self.knowledge.learn_net(net)
        own = [each for each in self._atoms if _related(each, net)]
        if not own and (other := self._apart(net)):
            return [other]
        if own and (net in self._settled or not all(is_part(net, each) for each in own)):
            return own
        if net not in self._settled:  # what it is to others, only the next run knows
            self._atoms.append(net)
            self._add_part(net)
            return [net]
        optimizers = self.knowledge.optimizers
        if len(optimizers) < 2:
            return [*self._atoms]
        named = [text for text in optimizers if _sounds_like(text, net)]
        if len(named) == 1:
            owned = list(optimizers[named[0]] or (_of(named[0]),))
            if all(each in self.parts for each in owned):  # else it is new in this run
                return owned
        self.guessed.add(net)
        return [*self._atoms]

    def _apart(self, net: str) -> str:
        """The part of a model that is none of those which optimizers have, and is made here; "": it can be one of them.

        It is a deep copy, or the program makes it of other things than them, and them as well.
        """
        copy = net[: net.index(COPY) + len(COPY)] if COPY in net else ""
        made = self.knowledge.made
        root = copy or next((each for each in made if each == net or is_part(net, each)), "")
        if not root or any(_related(each, root) for each in self._atoms):
            return ""
        seen = all(any(_related(each, other) for other in made) for each in self._atoms)
        if not copy and not (seen and made[root].isdisjoint({*made, *self._atoms})):
            return ""
        if root not in self.parts:
            with torch.random.fork_rng(devices=()):
                seed()
                torch.rand(len(self.parts))  # one of its own
                self._add_part(root)
        return root

    def _add_part(self, name: str) -> None:
        self.parts[name] = _part()
        self._net_of |= {id(each): name for each in self.parts[name].parameters()}

    def is_apart(self, parameter: torch.nn.Parameter) -> bool:
        """Whether a parameter is of a model that no optimizer has."""
        return self._net_of.get(id(parameter), "") not in self._atoms

    def parameters(self, net: str, lasting: Any = None, *, is_model: bool = True) -> list[torch.nn.Parameter]:
        """The parameters of a model, by its text; `lasting` is the same for as long as the model is the same.

        `is_model` False: they are parameters themselves, and whose they are is out of sight.
        """
        if is_model and isinstance(lasting, (Unknown, Instance)) and lasting.identity == net:
            self.knowledge.made[net] = frozenset(made_of(lasting))
        found: list[torch.nn.Parameter] = []
        of_another = any(is_part(net, each) for each in self.knowledge.nets)
        for atom in self.parts_of(net):
            own = [*self.parts[atom].parameters()]
            self._lasting.update(dict.fromkeys(map(id, own), lasting))
            self._whole.update(dict.fromkeys(map(id, own), not of_another and (atom == net or is_part(atom, net))))
            found += own
        return found

    def may_freeze(self, parameter: torch.nn.Parameter) -> bool:
        """Whether a parameter was last asked for as one of a whole model, which can be frozen without more."""
        return self.knowledge.freezes and self._whole.get(id(parameter), False)

    def may_be_net(self, text: str) -> bool:
        """Whether a value can be a model: one that was asked for parameters, where any was."""
        nets = self.knowledge.nets
        return not nets or any(_related(each, text) for each in nets)

    def called_in_region(self, net: str, where: str) -> None:
        """Something out of sight is called on a line: remember it where that can be a model in a float16 region."""
        if self.in_float16 or not torch.is_grad_enabled():
            return
        if any(each.dtype == "float16" for each in open_regions()) and self.may_be_net(net):
            self.in_float16 = where

    def is_weights(self, value: Any) -> bool:
        """Whether a value is parameters, or something that is asked for them; where nothing is, a model that is run."""
        if parameters_in([value]) or text_of(value) in self.knowledge.nets:
            return True
        return not self.knowledge.nets and isinstance(value, Unknown) and value.called

    def has_nets_in(self, text: str) -> bool:
        """Whether items of a container were asked for parameters."""
        return any(each.startswith(f"{text}[") for each in self.knowledge.nets)

    def convert(self, net: str, dtype: str) -> None:
        """`model.half()` and the like; the reference keeps float32."""
        if dtype not in ("half", "bfloat16", "float", "double") or net not in self.knowledge.nets:
            return
        if net in self._frozen or self.has_frozen or not self.knowledge.freezes:
            return  # what is trained is added to it, in a dtype of its own
        if dtype == "half":
            self._cast.add(net)
        if self.off:
            self.left_out = True
        else:
            for atom in self.parts_of(net):
                getattr(self.parts[atom], dtype)()

    def freeze(self, net: str, *, frozen: bool) -> None:
        """`model.requires_grad_(False)`, or True."""
        (self._frozen.add if frozen else self._frozen.discard)(net)

    def changed_by(self, call: str, inputs: Iterable[Any]) -> None:
        """A call out of sight is given these: what it trains of a model cast to float16 may have another dtype."""
        for each in inputs:
            if (text := text_of(each)) in self._cast and not _KEEPS_DTYPES.search(call):
                self.unsure_dtypes.add(str(text))

    def nets_of(self, parameters: Iterable[Any]) -> tuple[str, ...]:
        """The parts that parameters belong to."""
        return tuple(dict.fromkeys(self._net_of[id(each)] for each in parameters if id(each) in self._net_of))

    def optimizer(
        self, text: str, parameters: Sequence[torch.nn.Parameter] = (), *, made: bool = False
    ) -> torch.optim.Optimizer:
        """The optimizer that a value out of sight is, of the parameters that it was given; or one that is `made`."""
        if not parameters and any(self.knowledge.optimizers.values()):
            self.guessed.add(text)  # it can be one more of the same
        self.knowledge.learn_optimizer(text, self.nets_of(parameters) if parameters else None)
        part = self.parts.get(_of(text)) or next(iter(self.parts.values()))
        found = torch.optim.SGD(list(dict.fromkeys(parameters)) or part.parameters(), lr=LEARNING_RATE)
        self.own.add(id(found))
        if not made:
            self._trained[found] = text
        return found

    def stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has made a step: where nobody in sight clears its gradients, somebody else does."""
        if self.clears_itself and (id(optimizer) in self.own or self.knowledge.cleared):
            self._used[optimizer] = None

    def clear_used(self) -> None:
        """A backward comes: clear the gradients of the steps before it that nobody in sight clears."""
        for each in self._used:
            each.zero_grad()
        self._used.clear()

    def trained(self, optimizer: torch.optim.Optimizer) -> Any:
        """What stays the same while one training lasts: the models, as they were asked for their parameters.

        Of an optimizer from out of sight how it is written; of one that a call has made the optimizer itself.
        """
        return self._trained.get(optimizer, optimizer)

    def trains(self, optimizer: torch.optim.Optimizer, parameters: Iterable[torch.Tensor]) -> None:
        """An optimizer was made of these parameters."""
        self._trained[optimizer] = frozenset(self._lasting.get(id(each)) for each in parameters)

    def made_optimizer(self, text: str, parameters: Sequence[torch.Tensor]) -> None:
        """The program has made an optimizer; one that the same line makes once more is another."""
        self._made.append(text)
        count = self._made.count(text)
        self.knowledge.learn_optimizer(f"{text} {count}" if count > 1 else text, self.nets_of(parameters))

    def scaler(self, *, enabled: bool = True) -> torch.amp.GradScaler:
        """The scaler that a value out of sight is."""
        found = torch.amp.GradScaler(self.device, enabled=enabled, **self.scaler_arguments)  # type: ignore[arg-type]
        self.enabled[id(found)] = enabled
        return found

    def scale_of(self, scaler: torch.amp.GradScaler) -> Any:
        """The `_scale` of a scaler, as a program reads it: the reference's, which scales nothing, has its first one."""
        found = getattr(scaler, "_scale", None)
        if found is None and self.off and self.enabled.get(id(scaler), True):
            return torch.tensor(self.knowledge.init_scale)
        return found

    # --- numbers

    def number(self, net: str) -> torch.Tensor:
        """The value of something that is a parameter itself: the mean of its part's."""
        means = [each.mean() for each in self.parameters(net)]
        return sum(means[1:], means[0])

    def output(self, net: str | None, tensors: Sequence[torch.Tensor], *, whole: bool = False) -> torch.Tensor:
        """What a model makes of tensors, or of the next batch: 64 x 32.

        `net` None: a function of other things; `whole`: everything that is trained. Tensors that no model has made are
        a batch, too: one whose gradients are asked for.
        """
        own = self._is_own(net)
        known = [_shaped(each) for each in tensors]
        if known:
            made = sum(known[1:], known[0])
        else:
            made = self.batches[self._born % BATCHES][0]
            self._born += 1
        if known and not own and self._hangs_on_parts(made):
            return made * 1.0
        own = own or bool(not whole and self._namesake(net))
        if not own and not whole and self.knowledge.called:
            return made  # a batch: the models are run elsewhere
        if not own and net is not None and len(self._atoms) > 1 and not self.knowledge.nets:
            self._unowned.add(net)
            self.guessed |= self._unowned if len(self._unowned) > 1 else set()
        for atom in self._touched(net) if own and net is not None else [*self._atoms]:
            made = self._through(self.parts[atom], made)
        return made

    def leaf(self) -> torch.Tensor:
        """An input whose gradients are asked for."""
        return self.batches[self._born % BATCHES][0].clone().requires_grad_()

    def _hangs_on_parts(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is made of the parameters of models, and not of inputs alone."""
        todo, seen = [tensor.grad_fn], set()
        while todo:
            node = todo.pop()
            if node is not None and node not in seen:
                seen.add(node)
                if id(getattr(node, "variable", None)) in self._net_of:
                    return True
                todo += [each for each, _ in node.next_functions]
        return False

    def _touched(self, net: str) -> list[str]:
        """The parts that a model's output hangs on: its own, and those that no model which is run has."""
        self.knowledge.learn_call(net)
        own = self._namesake(net) or self.parts_of(net)
        if own[0] not in self._atoms:
            return own
        taken = {each for called in self.knowledge.called for each in self._namesake(called)}
        others = (each for each in self._atoms if not any(_related(each, called) for called in self.knowledge.called))
        return [*own, *(each for each in others if each not in own and each not in taken)]

    def _namesake(self, net: str | None) -> list[str]:
        """What the one optimizer has that is called like a model, where nothing is asked for its parameters."""
        optimizers = self.knowledge.optimizers
        if net is None or self.knowledge.nets or len(optimizers) < 2:
            return []
        named = [text for text in optimizers if _sounds_like(text, net)]
        return [_of(named[0])] if len(named) == 1 and _of(named[0]) in self.parts else []

    def _is_own(self, net: str | None) -> bool:
        return net is not None and (
            net in self.knowledge.nets or COPY in net or any(_related(each, net) for each in self._atoms if each)
        )

    @staticmethod
    def _through(part: torch.nn.Sequential, inputs: torch.Tensor) -> torch.Tensor:
        dtype = next(part.parameters()).dtype
        made: torch.Tensor = part(inputs if open_regions() else inputs.to(dtype))
        return made

    def loss(self, net: str | None, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """16 times the mean cross entropy of tensors, or of what the model makes of the next batch: a scalar."""
        known = list(tensors)
        if self._is_own(net) or not any(map(self._hangs_on_parts, known)):
            known = [self.output(net, known, whole=True)]
        targets = self.batches[(self._born - 1) % BATCHES][1]
        losses = [
            torch.nn.functional.cross_entropy(each, targets) * LOSS if each.shape == (ROWS, WIDTH) else each.mean()
            for each in known
        ]
        return sum(losses[1:], losses[0])

    def returned(self, call: ir.Call, loss: torch.Tensor) -> torch.Tensor:
        """The loss that an unseen call returns, given back."""
        if loss.grad_fn is not None:
            self._losses[loss.grad_fn] = call
        return loss

    def exponentiated(self, tensor: torch.Tensor) -> None:
        """A tensor is exponentiated: learn of the unseen calls that it has come from as a loss."""
        for node in upstream(tensor, self._losses):
            self.knowledge.learn_exponent(self._losses[node])

    def computed(self, call: ir.Call, made: torch.Tensor) -> torch.Tensor:
        """What an unseen call returns that is no model's, given back."""
        if made.grad_fn is not None:
            self._made_in[made.grad_fn] = call, self.iteration
        return made

    def went_back(self, roots: Iterable[torch.Tensor]) -> None:
        """The gradients of losses are made: what they hang on has been asked for them."""
        self._gone_back += [each.grad_fn for each in roots if each.grad_fn is not None]
        del self._gone_back[:-_MOST_ROOTS]

    def has_gone_back(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a part of a loss whose gradients were made."""
        todo, seen = [*self._gone_back], set()
        while todo:
            node = todo.pop()
            if node is tensor.grad_fn:
                return True
            if node is not None and node not in seen:
                seen.add(node)
                todo += [each for each, _ in node.next_functions]
        return False

    def used(self, root: torch.Tensor) -> None:
        """The gradients of a loss are about to be made: remember which results of earlier iterations it hangs on."""
        old = {node: call for node, (call, at) in self._made_in.items() if at < self.iteration}
        self.outliving.update(old[node] for node in (upstream(root, old) if old else ()))


def upstream(tensor: torch.Tensor, wanted: Container[Any]) -> Iterator[Any]:
    """The wanted ones among what has made a tensor in the graph, and nothing behind these."""
    todo, seen = [tensor.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node in wanted:
            yield node
        else:
            todo += [each for each, _ in node.next_functions]


def _part() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, WIDTH))


def _shaped(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        tensor = tensor.float()
    return tensor if tensor.shape == (ROWS, WIDTH) else tensor.mean().expand(ROWS, WIDTH)


def _of(optimizer: str) -> str:
    return f"what {optimizer} owns"


def _related(one: str, other: str) -> bool:
    """Whether one model is the other, or a part of it, by their texts."""
    return one == other or is_part(one, other) or is_part(other, one)


def _sounds_like(optimizer: str, net: str) -> bool:
    """Whether an optimizer's name and a model's have a word in common, or its first letter: optimizer_g, generator."""
    of, own = (set(filter(None, _WORDS.split(_spaced(_MADE_IN.sub("", each))))) for each in (optimizer, net))
    short = {each[0] for each in own} & {each for each in of if len(each) == 1}
    short |= {each[0] for each in of} & {each for each in own if len(each) == 1}
    return bool(of & own or short)


def _spaced(name: str) -> str:
    """`netG` as `net_g`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
