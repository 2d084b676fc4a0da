"""AMP420: branches that train without a backward, evaluate with gradients, or add other terms to their loss."""

from __future__ import annotations

import textwrap

import pytest

import amplint

STEP = """\
import torch


def train(model, loader, criterion, optimizer, closure, scaler=None):
    for x, y in loader:
        optimizer.zero_grad()
        if scaler is None:
{plain}
        else:
{scaled}
        print(loss.item())
"""
FORWARD = ("out = model(x)", "loss = criterion(out, y)")
REGION = ("with torch.autocast('cuda'):", *(f"    {each}" for each in FORWARD))
SCALED = (*REGION, "scaler.scale(loss).backward()", "scaler.step(optimizer)", "scaler.update()")


def indented(lines: tuple[str, ...], depth: int) -> str:
    return textwrap.indent("\n".join(lines), " " * depth)


def found(text: str) -> list[str]:
    return [each.message for each in amplint.check(text, "train.py") if each.code == "AMP420"]


def of_step(plain: tuple[str, ...], scaled: tuple[str, ...] = SCALED, more: str = "") -> list[str]:
    return found(STEP.format(plain=indented(plain, 12), scaled=indented(scaled, 12)) + more)


def test_a_branch_without_a_backward() -> None:
    (message,) = of_step((*FORWARD, "optimizer.step()"))
    assert message.startswith(
        "this branch runs backward, but the branch without the scaler, on line 8, does not: that branch steps "
        "without gradients"
    )


def test_both_branches_run_backward() -> None:
    assert not of_step((*FORWARD, "loss.backward()", "optimizer.step()"))


def test_a_backward_that_may_be_elsewhere() -> None:
    assert not of_step((*FORWARD, "optimizer.step(closure)"))  # which runs it
    assert not of_step((*FORWARD, "model.backward_of(loss)", "optimizer.step()"))
    assert not of_step(("loss = model.loss(x, y)", "optimizer.step()"))
    after = "        (loss * 2).backward()\n"
    assert not of_step((*FORWARD, "optimizer.step()"), more=after)
    # A branch that doesn't step only evaluates.
    assert not of_step(FORWARD)


EVALUATE = """\
import torch

{decorator}
def evaluate(model, loader, criterion, scaler):
    model.eval()
    total = 0
    for x, y in loader:
        if scaler is not None:
{cast}
        else:
{plain}
        total += loss.item()
    return total / len(loader)
{after}
"""
UNGRADED = ("with torch.no_grad():", *(f"    {each}" for each in FORWARD))
BOTH = ("with torch.no_grad(), torch.autocast('cuda'):", *(f"    {each}" for each in FORWARD))


def of_evaluation(cast: tuple[str, ...], plain: tuple[str, ...], decorator: str = "", after: str = "") -> list[str]:
    text = EVALUATE.format(cast=indented(cast, 12), plain=indented(plain, 12), decorator=decorator, after=after)
    return found(text)


def test_a_branch_that_evaluates_with_gradients() -> None:
    (message,) = of_evaluation(REGION, UNGRADED)
    assert message.startswith("this branch computes without gradients, but the branch with autocast, on line 9")
    (message,) = of_evaluation(BOTH, FORWARD)
    assert "the branch without autocast, on line 13" in message
    nested = ("with torch.autocast('cuda'):", "    with torch.inference_mode():", *(f"        {e}" for e in FORWARD))
    (message,) = of_evaluation(nested, FORWARD)
    assert "put `torch.inference_mode()` around both branches" in message


def test_branches_that_both_evaluate_without_gradients() -> None:
    assert not of_evaluation(BOTH, UNGRADED)
    assert not of_evaluation(REGION, UNGRADED, decorator="@torch.no_grad()")
    assert not of_evaluation(REGION, UNGRADED, after="    with torch.no_grad():\n        return evaluate(0, 0, 0, 0)")


def test_branches_that_evaluate_different_things() -> None:
    other = ("with torch.no_grad():", "    out = model(x, True)", "    loss = criterion(out, y)")
    assert not of_evaluation(REGION, other)


def test_a_branch_whose_gradients_are_used() -> None:
    assert not of_evaluation(REGION, UNGRADED, after="    loss.backward()")
    assert not of_evaluation((*REGION, "return loss"), (*UNGRADED, "return loss"))


TERMS = """\
import torch


def train(model, loader, criterion, optimizer, scaler, weight, amp):
    for x, y in loader:
        if amp:
            with torch.autocast("cuda", dtype=torch.float16):
{cast}
        else:
{plain}
        {after}
        if amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
"""
BASE = ("out, aux, kl = model(x)", "loss = criterion(out, y)")
AUX = "loss = loss + 0.1 * criterion(aux, y)"
NAMED = ("aux_loss = criterion(aux, y)", "loss += 0.1 * aux_loss")
KL = "loss += weight * kl"


def of_terms(cast: tuple[str, ...], plain: tuple[str, ...], after: str = "") -> list[str]:
    return found(TERMS.format(cast=indented(cast, 16), plain=indented(plain, 12), after=after))


@pytest.mark.parametrize("alike", [(AUX,), NAMED])
def test_a_term_that_one_branch_adds(alike: tuple[str, ...]) -> None:
    (message,) = of_terms((*BASE, *alike, KL), (*BASE, AUX, "print('plain')"))
    assert message.startswith("this branch adds `weight * kl` to the loss, but the branch without autocast, on line ")
    (message,) = of_terms((*BASE, AUX), (*BASE, *alike, KL))
    assert "the branch with autocast, on line 7" in message


def test_both_branches_add_the_same() -> None:
    assert not of_terms((*BASE, AUX, KL), (*BASE, KL, AUX))
    assert not of_terms((*BASE, AUX, KL), (*BASE, *NAMED, KL))


def test_terms_that_may_be_meant() -> None:
    assert not of_terms((*BASE, KL), BASE)  # the one term that there is
    assert not of_terms((*BASE, AUX, KL), (*BASE, AUX, "loss += 2 * kl"))  # another one in its place
    assert not of_terms((*BASE, AUX, KL), ("loss = model(x).sum()", AUX))  # another loss
    assert not of_terms((*BASE, AUX, KL), (*BASE, AUX), after=f"if not amp: {KL}")


@pytest.mark.parametrize(
    ("cast", "plain", "said"),
    [
        (("loss = model(x)",), ("loss, logits = model(x)",), "takes a loss from `model(x)`"),
        (("loss, logits, _ = model(x)",), ("loss, logits = model(x)",), "takes 3 values from `model(x)`"),
        (("loss, logits = model(x)",), ("loss, other = model(x)",), ""),
        (("loss = model(x)",), ("loss, logits = model(x, y)",), ""),  # another call
        (("loss, *rest = model(x)",), ("loss, logits = model(x)",), ""),
        (("loss = model(x)", "loss = loss[0]"), ("loss, logits = model(x)",), ""),
        (("out = model(x)", "loss = out.loss"), ("loss, logits = model(x)",), ""),
    ],
)
def test_what_two_branches_take_from_one_call(cast: tuple[str, ...], plain: tuple[str, ...], said: str) -> None:
    messages = of_terms(cast, plain)
    assert len(messages) == bool(said)
    assert all(said in message for message in messages)


TRAINER = """\
import torch


class Trainer:
    def train(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            if self.amp:
                with torch.autocast("cuda"):
                    CAST = self.model(x)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                PLAIN = self.model(x)
                loss.backward()
                self.optimizer.step()

    def validate(self, inputs):
        with torch.no_grad():
            ELSEWHERE
"""
TWO, THREE = "out, loss", "out, loss, skip"
TAKES_TWO, TAKES_THREE = f"{TWO} = self.model(inputs)", f"{THREE} = self.model(inputs)"


@pytest.mark.parametrize(
    ("cast", "plain", "elsewhere", "line", "is_told"),
    [
        (TWO, THREE, TAKES_TWO, 15, True),
        (TWO, THREE, TAKES_THREE, 10, True),
        (THREE, TWO, TAKES_TWO, 10, True),
        (TWO, THREE, "pass", 10, False),
        (TWO, THREE, f"{TAKES_TWO}\n            {TAKES_THREE}", 10, False),  # these disagree, too
        (TWO, THREE, f"{TWO} = self.model(inputs, brief=True)", 10, False),  # another call
        (TWO, THREE, f"{TWO} = self.other(inputs)", 10, False),
        (TWO, THREE, f"{TAKES_TWO}\n\nclass Other:\n    def f(self, inputs):\n        {TAKES_THREE}", 15, True),
    ],
)
def test_the_branch_is_marked_that_no_other_use_is_like(
    cast: str, plain: str, elsewhere: str, line: int, is_told: bool
) -> None:
    text = TRAINER.replace("CAST", cast).replace("PLAIN", plain).replace("ELSEWHERE", elsewhere)
    (finding,) = [each for each in amplint.check(text, "train.py") if each.code == "AMP420"]
    assert finding.location.row == line
    like = "takes 3 values" if elsewhere == TAKES_THREE else "takes 2 values"
    assert (f"{like}, like line 21: this branch raises" in finding.message) is is_told
    assert ("one of the branches raises" in finding.message) is not is_told
    other = "with autocast, on line 10" if line == 15 else "without autocast, on line 15"
    assert f"but the branch {other}, takes" in finding.message


SUMS = ("out, aux, kl = model(x)", "ce = criterion(out, y)", "aux_loss = criterion(aux, y)")


def test_a_term_that_one_branch_sums_up() -> None:
    (message,) = of_terms(
        (*SUMS, "loss = ce + aux_loss"), (*SUMS, "kl_loss = kl.mean()", "loss = ce + kl_loss + aux_loss")
    )
    assert message.startswith("this branch adds `kl_loss` to the loss, but the branch with autocast, on line 7")
    (message,) = of_terms(
        (*SUMS, "box_loss = kl.max()", "loss = ce + aux_loss + box_loss"),
        (*SUMS, "kl_loss = kl.mean()", "loss = ce + 0.1 * aux_loss + kl_loss"),
    )
    assert message.startswith("this branch adds `box_loss` to the loss, but the branch without autocast, on line ")


def test_sums_that_are_alike_or_may_be_meant() -> None:
    for cast, plain in (
        ("loss = ce + aux_loss", "loss = aux_loss + ce"),
        ("loss = ce + aux_loss + kl", "loss = ce + 0.5 * aux_loss + weight * kl"),  # other weights
        ("loss = ce + aux_loss", "loss = ce"),  # the one term that there is
        ("loss = ce + aux_loss", "loss = ce + kl"),
        ("loss = ce + aux_loss + kl", "loss = ce + criterion(out, x)"),
    ):
        assert not of_terms((*SUMS, cast), (*SUMS, plain))
    assert not of_terms((*SUMS, "loss = ce + aux_loss"), (*SUMS, "loss = ce + aux_loss + kl"), after="loss += kl")


CLIPS_BY_HELPER = """\


def limit(model, most):
    torch.nn.utils.clip_grad_norm_(model.parameters(), most)
"""


def test_a_helper_clips_in_one_branch() -> None:
    plain = (*FORWARD, "loss.backward()", "limit(model, 1.0)", "optimizer.step()")
    (message,) = of_step(plain, more=CLIPS_BY_HELPER)
    assert message.startswith("this branch clips the gradients, but the branch with the scaler, on line ")
    unscaled = ("scaler.unscale_(optimizer)", "limit(model, 1.0)", *SCALED[-2:])
    assert not of_step(plain, (*SCALED[:-2], *unscaled), more=CLIPS_BY_HELPER)
    # It may do anything else.
    assert not of_step(plain, more=CLIPS_BY_HELPER.replace("most)\n", "most)\n    later(model)\n"))


CREATED = """\
import torch


def train(model, loader, criterion, optimizer, args):
    BEFORE
    if args.amp:
        scaler = torch.amp.GradScaler("cuda")
    AFTER
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=args.amp):
            loss = criterion(model(x), y)
        USE
"""


def created(use: str, *, before: str = "pass", after: str = "pass") -> list[str]:
    return found(CREATED.replace("USE", use).replace("BEFORE", before).replace("AFTER", after))


EITHER = "create the scaler in every case, with `enabled={}`"
THERE_TOO = "create the scaler in that case too, with `enabled=False`"
STEPPED = "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"


@pytest.mark.parametrize(
    ("use", "after"),
    [
        (STEPPED, "pass"),
        ("forward_step(model, loss, scaler, optimizer)\n        scaler.scale(loss)", "pass"),
        (f"if args.amp:\n            {STEPPED}\n        scaler.scale(loss)", "pass"),
        (STEPPED, "amp = args.amp\n    if amp:\n        scaler = torch.amp.GradScaler('cuda', init_scale=8.0)"),
        (STEPPED, "else:\n        print('float32')"),
        (
            f"if args.amp:\n            {STEPPED}\n        if loss.item() < best:\n            save(model, scaler)",
            "pass",
        ),
        (
            f"if args.amp:\n            {STEPPED}\n        if step % 100 == 0 and rank == 0:\n            save(scaler)",
            "pass",
        ),
    ],
)
def test_a_scaler_that_is_created_in_one_branch_and_used_in_both(use: str, after: str) -> None:
    (message,) = created(use, after=after)
    assert message.startswith(
        "`scaler` is created only in the `if` on line 6: if `args.amp` is false, this line raises"
    )


@pytest.mark.parametrize(
    ("use", "before", "after"),
    [
        (f"if args.amp:\n            {STEPPED}", "pass", "pass"),
        (f"if not args.amp:\n            continue\n        {STEPPED}", "pass", "pass"),
        (f"if args.fp16:\n            {STEPPED}", "pass", "pass"),  # may be the same
        (f"if args.precision == 16:\n            {STEPPED}", "pass", "pass"),
        (f"if 'scaler' in saved:\n            {STEPPED}", "pass", "pass"),
        (STEPPED, "if not args.amp:\n        raise ValueError", "pass"),
        (STEPPED, "pass", "else:\n        return"),
        (STEPPED, "pass", "else:\n        scaler = torch.amp.GradScaler('cuda', enabled=False)"),
        (STEPPED, "assert args.amp", "pass"),
        (STEPPED, "args.amp = True", "pass"),
        (f"try:\n            {STEPPED}\n        except NameError:\n            loss.backward()", "pass", "pass"),
        (f"if 'scaler' in locals():\n            {STEPPED}", "pass", "pass"),
    ],
)
def test_a_scaler_that_is_there_wherever_it_is_used(use: str, before: str, after: str) -> None:
    assert not created(use, before=before, after=after)


def test_two_scalers_that_are_created_together() -> None:
    text = (
        CREATED.replace("scaler = torch", "other, scaler = None, torch")
        .replace("BEFORE", "pass")
        .replace("AFTER", "pass")
    )
    (message,) = found(text.replace("USE", STEPPED))
    assert message.startswith("`scaler` is created only in the `if` on line 6")


def test_a_scaler_that_the_first_iteration_does_not_find() -> None:
    (message,) = created("scaler, loss = forward_step(model, loss, scaler, optimizer)")
    assert message.endswith("if `args.amp` is false, this line raises UnboundLocalError; " + EITHER.format("args.amp"))
    assert not created("scaler = forward_step(model, loss, optimizer)\n        scaler.update()")


@pytest.mark.parametrize("handler", ["KeyboardInterrupt", "(OSError, RuntimeError)"])
def test_a_handler_for_something_else(handler: str) -> None:
    assert created(f"try:\n            {STEPPED}\n        except {handler}:\n            pass")


@pytest.mark.parametrize(
    "text",
    [
        CREATED.replace("BEFORE", "scaler = None"),
        CREATED.replace("BEFORE", "pass").replace("AFTER", "else:\n        scaler = None"),
        CREATED.replace("BEFORE", "scaler = torch.amp.GradScaler('cuda') if args.amp else None").replace(
            'if args.amp:\n        scaler = torch.amp.GradScaler("cuda")', "pass"
        ),
    ],
)
def test_a_scaler_that_is_none(text: str) -> None:
    text = text.replace("AFTER", "pass")
    (message,) = found(text.replace("USE", STEPPED))
    assert message == f"if `args.amp` is false, `scaler` is None, and this line raises AttributeError; {THERE_TOO}"
    for right in ("scaler is not None", "scaler", "args.amp", "args.amp and step", "args.fp16"):
        assert not found(text.replace("USE", f"if {right}:\n            {STEPPED}")), right
    assert not found(text.replace("USE", "forward_step(model, loss, scaler, optimizer)"))
    (message,) = found(text.replace("USE", STEPPED).replace("args.amp", "torch.cuda.is_available()"))
    assert message.startswith("on devices other than cuda, `scaler` is None")


OBJECT = """\
import torch


class Trainer:
    def __init__(self, model, args, training=True):
        self.model, self.args = model, args
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if MADE:
            self.scaler = torch.amp.GradScaler("cuda")

    def NAME(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", enabled=self.args.precision == "fp16"):
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
        USE
"""
STEPS = "self.scaler.scale(loss).backward(); self.scaler.step(self.optimizer); self.scaler.update()"
FLAG = "args.precision == 'fp16'"


def kept(use: str = STEPS, made: str = FLAG, name: str = "train_step") -> list[str]:
    return found(OBJECT.replace("USE", use).replace("MADE", made).replace("NAME", name))


@pytest.mark.parametrize("made", [FLAG, f"training and {FLAG}", f"{FLAG} and torch.cuda.is_available()"])
def test_an_attribute_that_is_set_in_one_branch(made: str) -> None:
    (message,) = kept(made=made)
    assert message == (
        f"`self.scaler` is created only in the `if` on line 8: if `{made}` is false, this line raises AttributeError"
        f"; {EITHER.format(made)}"
    )


@pytest.mark.parametrize(
    ("use", "made", "name"),
    [
        (f"if self.args.precision == 'fp16':\n            {STEPS}", FLAG, "train_step"),
        (f"if self.args.precision == 'fp16':\n            {STEPS}", f"training and {FLAG}", "train_step"),
        (f"if self.args.half:\n            {STEPS}", FLAG, "train_step"),  # may be the same
        (f"if hasattr(self, 'scaler'):\n            {STEPS}", FLAG, "train_step"),
        (f"try:\n            {STEPS}\n        except AttributeError:\n            loss.backward()", FLAG, "step"),
        (STEPS, "training", "train_step"),  # who trains calls it
        (STEPS, "torch.cuda.is_available()", "train_step"),
        (STEPS, FLAG, "train_step_amp"),  # called for AMP, by whoever calls it
    ],
)
def test_an_attribute_that_is_there(use: str, made: str, name: str) -> None:
    assert not kept(use, made, name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    def __init__", "    scaler = None\n\n    def __init__"),
        ("    def __init__", "    def __getattr__(self, name):\n        return None\n\n    def __init__"),
        ("class Trainer:", "from elsewhere import Base\nclass Trainer(Base):"),
        ("class Trainer:", "class AmpTrainer:"),  # made for AMP, by whoever makes it
        ("        if MADE", "        self.scaler = make()\n        if MADE"),
    ],
)
def test_an_attribute_that_may_be_there(old: str, new: str) -> None:
    text = OBJECT.replace("USE", STEPS)
    assert found(text.replace("MADE", FLAG))
    assert not found(text.replace(old, new).replace("MADE", FLAG))


LOADED = """\
import os
import torch


def train(model, loader, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.amp:
        scaler = torch.amp.GradScaler("cuda")
    if os.path.exists(args.resume):
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        if TEST:
            scaler.load_state_dict(saved["scaler"])
    for x, y in loader:
        optimizer.zero_grad()
        if args.amp:
            with torch.autocast("cuda"):
                loss = model(x, y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            model(x, y).backward()
            optimizer.step()
"""


@pytest.mark.parametrize("test", ["'scaler' in saved", "'scaler' in saved.keys()", "not args.finetune"])
def test_a_checkpoint_of_a_run_with_the_scaler(test: str) -> None:
    (message,) = found(LOADED.replace("TEST", test))
    assert message.startswith(
        "`scaler` is created only in the `if` on line 7: if `args.amp` is false, this line raises"
    )


@pytest.mark.parametrize("test", ["args.amp and 'scaler' in saved", "'scaler' in locals()", "args.load_scaler"])
def test_a_checkpoint_whose_scaler_is_asked_for(test: str) -> None:
    assert not found(LOADED.replace("TEST", test))


WRAPPER = """\
import torch


class LossScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()


def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    FIRST
    if args.amp:
        loss_scaler = LossScaler()
    for x, y in loader:
        train(model, x, y, optimizer, loss_scaler)
"""


def test_an_object_that_makes_the_scaler() -> None:
    (message,) = found(WRAPPER.replace("FIRST", "pass"))
    assert message.startswith("`loss_scaler` is created only in the `if` on line 17")
    assert not found(WRAPPER.replace("FIRST", "loss_scaler = None"))


def test_a_scaler_that_is_created_where_there_is_cuda() -> None:
    # Nobody trains this program without.
    text = CREATED.replace("args.amp", "torch.cuda.is_available()").replace("USE", STEPPED)
    assert not found(text.replace("BEFORE", "pass").replace("AFTER", "pass"))


SET_APART = """\
import torch


def train(args, model, loader, optimizer, scaler, criterion):
    total = 0.0
    for x, y in loader:
        if args.use_amp:
            with torch.autocast("cuda"):
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            part = criterion(model(x), y)
            loss = part * 2
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
        total += part.item()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        # The variable is there in both branches, or before them; or it is read in the same branch alone.
        ("loss = criterion(", "part = loss = criterion(", 0),
        ("    total = 0.0", "    total = part = 0.0", 0),
        ("        total += part", "        if not args.use_amp:\n            total += part", 0),
        ("total += part.item()", 'total += part.item() if "part" in locals() else 0', 0),
        # The other branch leaves, or the error is expected.
        ("            scaler.update()", "            scaler.update()\n            continue", 0),
        (
            "        total += part.item()",
            "        try:\n            total += part.item()\n        except NameError:\n            pass",
            0,
        ),
    ],
)
def test_a_variable_that_one_branch_sets_and_code_after_both_reads(old: str, new: str, count: int) -> None:
    assert old in SET_APART
    told = [each for each in amplint.check(SET_APART.replace(old, new, 1), "train.py") if "sets `part`" in each.message]
    assert [each.confidence.value for each in told] == ["likely"] * count
    assert all("only the branch without autocast sets `part`, on line 14" in each.message for each in told)


def test_a_chain_of_branches_is_compared_by_its_own_branches() -> None:
    chain = SET_APART.replace(
        "        if args.use_amp:",
        "        if args.evaluate:\n            loss = criterion(model(x), y)\n        elif args.use_amp:",
        1,
    ).replace("            loss = criterion(model(x), y)\n            scaler", "XX", 0)
    both = chain.replace("                loss = criterion(", "                part = loss = criterion(", 1)
    assert [each.message for each in amplint.check(chain, "train.py") if "sets `part`" in each.message]
    assert not [each.message for each in amplint.check(both, "train.py") if "sets `part`" in each.message]


SOMETIMES = """
import torch


def train(model, loader, criterion, every):
    for epoch in range(9):
        if epoch % every == 0:
            with torch.no_grad():
                for x, y in loader:
                    with torch.autocast("cuda"):
                        output = model(x)
                    shown = output
        else:
            OTHERWISE
        if output is not None:
            print(shown)
"""


@pytest.mark.parametrize(("otherwise", "count"), [("loss = 'none'", 0), ("output = model(loader[0][0])", 1)])
def test_a_branch_that_computes_nothing_is_not_the_same_without_autocast(otherwise: str, count: int) -> None:
    told = [each for each in amplint.check(SOMETIMES.replace("OTHERWISE", otherwise)) if "sets `shown`" in each.message]
    assert len(told) == count
