"""What decides: values followed to what they can be, and tests as formulas."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.base.findings import Severity
from amplint.model.inference.formulas import (
    FALSE,
    TRUE,
    Formula,
    bearing_on,
    both,
    choice,
    contradict,
    either,
    equals,
    fact,
    in_order,
    likely,
    negated,
    possible,
    present,
    worlds,
)
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.objects.terms import ONE, Term, equal, implied, literal, path
from amplint.model.objects.terms import present as is_there
from amplint.model.syntax import ir
from amplint.rules.arguments import amp210_enabled_disagreement as amp210
from amplint.sources.source import Source
from amplint.verify.program.files import lowered
from tests.conftest import processor_time

X = path("x")
FORMULAS = st.recursive(
    st.sampled_from([TRUE, FALSE, fact(path("a")), fact(path("b")), equals(X, 1), equals(X, 2), present(X), fact(X)]),
    lambda inner: st.one_of(
        st.builds(negated, inner), st.builds(both, inner, inner), st.builds(either, inner, inner),
        st.builds(choice, inner, inner, inner),
    ),
    max_leaves=8,
)  # fmt: skip


@given(FORMULAS)
def test_a_formula_or_its_negation_holds_in_each_world(formula: Formula) -> None:
    everywhere = either(formula, negated(formula))
    assert all(everywhere.holds(world) for world in worlds(TRUE, formula, negated(FALSE)))
    assert possible(formula, negated(formula)) is None


@given(FORMULAS, FORMULAS)
def test_what_both_and_either_say_holds_in_their_worlds(one: Formula, other: Formula) -> None:
    for world in worlds(one, other):
        assert both(one, other).holds(world)
        assert either(one, other).holds(world)
        assert not (world.get(equal(X, ONE)) and world.get(equal(X, literal(2))))


@pytest.mark.parametrize(
    ("condition", "facts", "truth"),
    [
        (X, {is_there(X): False}, False),
        (X, {is_there(X): True}, None),
        (X, {equal(X, ONE): True}, True),
        (X, {equal(X, literal("")): True}, False),
        (X, {equal(X, ONE): False}, None),
        (is_there(X), {X: True}, True),
        (is_there(X), {X: False}, None),
        (is_there(X), {equal(X, literal(0)): True}, True),
        (equal(X, ONE), {is_there(X): False}, False),
        (equal(X, ONE), {X: False}, False),
        (equal(X, ONE), {X: True}, None),
        (equal(X, ONE), {equal(X, literal(2)): True}, False),
        (equal(X, path("y")), {equal(X, literal(2)): True}, None),
        (path("y"), {X: True, is_there(X): False}, None),
    ],
)
def test_what_facts_say_of_others(condition: Term, facts: dict[Term, bool], truth: bool | None) -> None:
    assert implied(condition, facts) is truth


@given(st.lists(FORMULAS, max_size=3))
def test_all_worlds_are_found_in_order(formulas: list[Formula]) -> None:
    facts = in_order(frozenset[Term]().union(*(each.facts() for each in formulas)))
    everywhere = [dict(zip(facts, values, strict=True)) for values in product((True, False), repeat=len(facts))]
    assert list(worlds(*formulas)) == [
        world
        for world in everywhere
        if all(each.holds(world) for each in formulas)
        and all(implied(one, {other: world[other]}) in (None, world[one]) for one, other in permutations(facts, 2))
    ]


def _many(count: int) -> list[Formula]:
    """Choices between facts that have nothing to do with each other."""
    return [either(fact(path(f"one{each}")), fact(path(f"other{each}"))) for each in range(count)]


def test_facts_that_say_nothing_of_each_other_are_taken_together() -> None:
    some, other = equals(X, "bf16"), equals(X, "fp16")
    assert possible(*_many(20), either(some, other), negated(some)) is not None
    assert contradict(*_many(20), some, other)
    assert contradict(*_many(20), either(some, other), negated(some), negated(other))


def test_too_many_facts_are_no_world() -> None:
    both_ways = (fact(X), negated(fact(X)))
    assert possible(*_many(50)) is None
    assert not contradict(*_many(50), *both_ways)
    hard = [choice(fact(path(f"a{each}")), fact(path(f"b{each}")), negated(fact(X))) for each in range(30)]
    assert possible(*hard, fact(X)) is not None


def test_what_is_asked_of_one_thing_is_asked_together() -> None:
    some, empty, other = equals(X, "bf16"), equals(X, ""), equals(X, "fp16")
    for apart in (
        (some, other),
        (fact(X), negated(present(X))),
        (some, negated(present(X))),
        (some, negated(fact(X))),
        (empty, fact(X)),
    ):
        assert possible(*apart) is None
    for together in ((some, present(X), fact(X)), (empty, negated(fact(X))), (some, negated(fact(path("y"))))):
        assert possible(*together) is not None
    # Of what is compared with several literals, mostly one holds, or it is not there at all.
    assert likely(negated(some), negated(other)) is None
    assert likely(negated(some), negated(other), negated(present(X))) is not None
    assert both(some, fact(path("y")), present(path("z"))).subjects() == {X, path("y"), path("z")}


def switches(text: str) -> tuple[Formula, Formula]:
    """The formulas of the two arguments of a text's call of `compare`."""
    module = lowered(Source("train.py", f"import torch\nfrom torch.amp import GradScaler\n{text}"))
    (call,) = [each for each in module.calls if ir.last_name(each.func) == "compare"]
    known = decided(module)
    first, second = (known.of(each) for each in call.positional)
    return first, second


@pytest.mark.parametrize(
    "text",
    [
        "use_amp = args.amp\ncompare(use_amp, args.amp)",
        "compare(not args.amp, False if args.amp else True)",
        "compare(args.amp is True, args.amp)",
        "compare(mode == 'a', 'a' == mode)",
        "compare(mode in ('a', 'b'), mode == 'b' or mode == 'a')",
        "compare(mode != 'a', not mode == 'a')",
        "if args.amp:\n    on = True\nelse:\n    on = False\ncompare(on, args.amp)",
        "on = False\nif args.amp:\n    on = args.fast\ncompare(on, args.amp and args.fast)",
        "scaler = GradScaler() if args.amp else None\ncompare(scaler is not None, args.amp)",
        "scaler = GradScaler(enabled=args.amp)\ncompare(scaler.is_enabled(), args.amp)",
        "def f(use):\n    compare(use, args.amp)\nf(args.amp)",
        "def f(cfg):\n    compare(cfg.amp, args.amp)\nf(args)",
        "class A:\n    def __init__(self, cfg):\n        self.cfg, self.on = cfg, cfg.amp\n"
        "    def f(self):\n        compare(self.on, self.cfg.amp)",
        "def pick():\n    if args.amp:\n        return True\n    return False\ncompare(pick(), args.amp)",
        "compare(torch.cuda.is_available(), device.type == 'cuda')",
        "compare(device.type != 'cpu', 'cuda' in str(device))",
        "compare('bf16' in mode, mode == 'bf16')",
        "compare('RANK' in os.environ and 'SIZE' in os.environ, 'SIZE' in os.environ and 'RANK' in os.environ)",
        "dtype = torch.half if args.half else torch.bfloat16\ncompare(dtype == torch.float16, args.half)",
        "T = {'a': torch.half, 'b': torch.bfloat16}\nd = T[args.d]\ncompare(d is torch.float16, args.d == 'a')",
        "compare(getattr(torch, args.d) == torch.float16, args.d == 'float16')",
    ],
)
def test_what_is_decided_by_the_same_is_the_same(text: str) -> None:
    first, second = switches(text)
    assert possible(first, negated(second)) is None
    assert possible(second, negated(first)) is None
    assert possible(first) is not None


@pytest.mark.parametrize(
    "text",
    [
        "compare(args.amp, args.other)",
        "def f(use):\n    compare(use, args.amp)\nf(True)\nf(False)",
        "def f(use=args.amp):\n    compare(use, args.amp)",
        "class A:\n    def g(self):\n        self.on = args.amp\n    def h(self):\n        self.on = False\n"
        "    def f(self):\n        compare(self.on, args.amp)",
        "on = args.amp\non += 1\ncompare(on, args.amp)",
        "for on in flags:\n    compare(on, args.amp)",
        "x = None\nif not x:\n    x = GradScaler()\ncompare(x is not None, args.amp)",
    ],
)
def test_what_may_be_decided_otherwise_is_open(text: str) -> None:
    first, second = switches(text)
    assert possible(first, negated(second)) is not None
    assert possible(second, negated(first)) is not None


def test_tests_of_tests_end_somewhere() -> None:
    """Each variable hangs on the one before, twice: the formula would double with each."""
    chain = "\n".join(f"v{n} = a{n} if v{n - 1} else b{n} and v{n - 1}" for n in range(1, 60))
    first, _ = switches(f"v0 = args.amp\n{chain}\ncompare(v59, args.amp)")
    assert is_vague(first)


EPOCH = """
def epoch(model, batches, optimizer, use_amp=False, scaler=None):
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=use_amp):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
        if torch.isinf(loss):
            continue
        if use_amp and scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("call", "severity"),
    [
        ("", Severity.NOTE),
        ("epoch(model, data, optimizer, True, GradScaler('cuda'))", None),
        ("epoch(model, data, optimizer, amp, GradScaler('cuda') if amp else None)", None),
        ("epoch(model, data, optimizer, True)", Severity.ERROR),
        ("epoch(model, data, optimizer, amp, GradScaler('cuda') if big else None)", Severity.ERROR),
    ],
)
def test_a_scaler_that_callers_give_is_there_where_they_give_it(call: str, severity: Severity | None) -> None:
    module = lowered(Source("train.py", f"import torch\nfrom torch.amp import GradScaler\n{EPOCH}\n{call}\n"))
    found = list(amp210.check(module))
    assert [each.severity for each in found] == ([severity] if severity is not None else [])
    for each in found:
        assert "`scaler` is None" in each.message or call
        assert "isinf" not in each.message


@given(FORMULAS, FORMULAS)
def test_what_bears_on_another_formula_follows_from_the_whole(formula: Formula, other: Formula) -> None:
    part = bearing_on(formula, other)
    assert part.facts() <= formula.facts()
    assert possible(formula, negated(part)) is None


def test_what_shares_no_fact_with_another_formula_is_left_out() -> None:
    a, b, c = (fact(path(each)) for each in "abc")
    assert bearing_on(both(a, b, either(both(negated(a), c), b)), a) == a
    assert bearing_on(both(either(a, b), either(b, c)), a) == TRUE


FLIPPED = """\
import torch


def train(model, scaler, batches, a, b, c):
    for x in batches:
        if c:
            a = not a
        if a:
            b = not b
        if b:
            c = not c
        if a or c:
            b = not b
        if b and a:
            c = not c
        with torch.autocast("cuda", enabled=b):
            scaler.scale(model(x)).backward()
        if c or b:
            a = not a
"""


def test_flags_that_a_loop_flips_by_each_other_take_little_work() -> None:
    module = lowered(Source("train.py", FLIPPED))
    (region,) = [each for each in module.calls if ir.last_name(each.func) == "autocast"]
    with processor_time(at_most=10):  # their tests were followed in all orders, which took minutes
        decided(module).of(region.keyword("enabled"))


INTERRUPTED = """\
import signal
import torch

stop = False

def handle(signum, frame):
    HOW
    stop = True

def train(model, loader):
    for x in loader:
        if stop:
            break
        with torch.autocast("cuda", enabled=stop):
            model(x)
"""


@pytest.mark.parametrize(("how", "is_open"), [("global stop", True), ("pass", False)])
def test_a_global_that_another_function_sets_is_not_known(how: str, is_open: bool) -> None:
    module = lowered(Source("train.py", INTERRUPTED.replace("HOW", how)))
    (region,) = [each for each in module.calls if ir.last_name(each.func) == "autocast"]
    known = decided(module)
    on = known.of(region.keyword("enabled"))
    assert possible(known.inside(region)) is not None  # was False: nothing after the test was read
    assert (possible(on) is not None) is is_open
    assert possible(negated(on)) is not None


@pytest.mark.parametrize(
    ("made", "is_open"),
    [
        (
            "if fp16:\n        try:\n            unscale()\n        except OverflowError:\n            found = True",
            True,
        ),
        ("for each in parts:\n        if fp16:\n            found = True", True),
        ("if fp16:\n        found = True", False),
    ],
)
def test_a_handler_or_a_loop_need_not_set_what_it_sets(made: str, is_open: bool) -> None:
    """With fp16, `found` is surely true only where nothing but that test decides."""
    text = f"def train(fp16, parts):\n    found = False\n    {made}\n    if fp16 and not found:\n        step()\n"
    module = lowered(Source("x.py", text))
    (step,) = (each for each in module.calls if ir.last_name(each.func) == "step")
    assert contradict(decided(module).inside(step)) is not is_open
