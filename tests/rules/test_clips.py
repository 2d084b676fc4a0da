"""AMP401 on programs as people write them: what it must not say, what it must, and what its fix writes."""

from __future__ import annotations

import ast
import re

import pytest

from amplint import Applicability, check, fix

IMPORTS = "import torch\nfrom functools import partial\nfrom torch.nn.utils import clip_grad_norm_\n\n\n"
CLIP = "clip_grad_norm_(model.parameters(), 1.0)"


def found(body: str) -> list[str]:
    """The lines that AMP401 reports."""
    lines = (IMPORTS + body).splitlines()
    text = IMPORTS + body
    return [lines[text.count("\n", 0, each.start)].strip() for each in check(text) if each.code == "AMP401"]


def fixed(body: str, applicability: Applicability = Applicability.SAFE) -> str:
    """The body after the fix, which has to be of one applicability, and stay as it is then."""
    (finding,) = [each for each in check(IMPORTS + body) if each.code == "AMP401"]
    assert finding.fix is not None, finding.withheld
    assert finding.fix.applicability is applicability
    once = fix(IMPORTS + body, unsafe=True)
    assert fix(once, unsafe=True) == once
    ast.parse(once)
    return once.removeprefix(IMPORTS)


def withheld(body: str) -> str:
    """Why there is no fix."""
    (finding,) = [each for each in check(IMPORTS + body) if each.code == "AMP401"]
    assert finding.fix is None
    assert fix(IMPORTS + body, unsafe=True) == IMPORTS + body
    return finding.withheld or ""


def loop(middle: str, arguments: str = "model, opt, scaler, loader, k, amp", before: str = "") -> str:
    """A training loop with `middle` between the scaled backward and the step."""
    lines = [f"def train({arguments}):"]
    lines += [f"    {line}" for line in before.splitlines()]
    lines += ["    for i, x in enumerate(loader):", "        opt.zero_grad()"]
    lines += ["        scaler.scale(model(x)).backward()"]
    lines += [f"        {line}" for line in middle.splitlines()]
    lines += ["        scaler.step(opt)", "        scaler.update()", ""]
    return "\n".join(lines)


# What tells apart a program that is right from the plain misuse; each has to stay silent.
SILENT = {
    "behind a flag that may be AMP's own": loop(f"if amp:\n    scaler.unscale_(opt)\n{CLIP}"),
    "in the other arm of such a flag": loop(f"if amp:\n    scaler.unscale_(opt)\n    {CLIP}\nelse:\n    {CLIP}"),
    "before an arm of such a flag leaves": loop(f"if not amp:\n    {CLIP}\n    continue\nscaler.unscale_(opt)\n{CLIP}"),
    "where the scaler is known to be off": loop(
        f"if not scaler.is_enabled():\n    {CLIP}\n    opt.step()\n    continue\nscaler.unscale_(opt)"
    ),
    "where the optimizer then steps without the scaler": loop(f"if not amp:\n    {CLIP}\n    opt.step()\n    continue"),
    "of a counter and a flag": loop(
        f"if (i + 1) % k == 0 and amp:\n    scaler.unscale_(opt)\nif (i + 1) % k == 0:\n    {CLIP}",
        before='scaler = torch.amp.GradScaler("cuda", enabled=amp)',
    ),
    "unscaled by a lambda": loop(f"prepare()\n{CLIP}", before="prepare = lambda: scaler.unscale_(opt)"),
    "unscaled by a partial": loop(f"prepare()\n{CLIP}", before="prepare = partial(scaler.unscale_, opt)"),
    "unscaled by a function that is passed on": loop(
        f"run(work)\n{CLIP}", "model, opt, scaler, loader, run", "def work():\n    scaler.unscale_(opt)"
    ),
    "unscaled by one of two functions": loop(
        f"prepare()\n{CLIP}",
        before="if amp:\n    def prepare(): scaler.unscale_(opt)\nelse:\n    def prepare(): scaler.unscale_(opt)",
    ),
    "unscaled by an object that was given the scaler": loop(
        f"helper.prepare()\n{CLIP}", before="from lib import Helper\nhelper = Helper(scaler, opt)"
    ),
    "unscaled by a method of this file": (
        "class Helper:\n    def prepare(self):\n        self.scaler.unscale_(self.opt)\n\n\n"
    )
    + loop(f"helper.prepare()\n{CLIP}", "model, opt, scaler, loader, helper"),
    "unscaled by a conditional expression": loop(f"scaler.unscale_(opt) if amp else None\n{CLIP}"),
    "unscaled behind an and": loop(f"amp and scaler.unscale_(opt)\n{CLIP}"),
    "unscaled in a comprehension": loop(f"[scaler.unscale_(each) for each in opts]\n{CLIP}"),
    "unscaled under another name of the scaler": (
        "class Trainer:\n"
        "    def step(self, x):\n"
        "        scaler = self.scaler if self.fp16 else None\n"
        "        scaler.scale(self.model(x)).backward()\n"
        "        self.scaler.unscale_(self.opt)\n"
        "        clip_grad_norm_(self.model.parameters(), 1.0)\n"
        "        scaler.step(self.opt)\n"
        "        scaler.update()\n"
    ),
    "unscaled by hooks that get self": (
        "class Trainer:\n"
        "    def __init__(self, hooks):\n"
        '        self.scaler = torch.amp.GradScaler("cuda")\n'
        "        self.hooks = hooks\n"
        "    def step(self, x):\n"
        "        self.scaler.scale(self.model(x)).backward()\n"
        "        for hook in self.hooks:\n"
        "            hook.before_step(self)\n"
        "        clip_grad_norm_(self.model.parameters(), 1.0)\n"
        "        self.scaler.step(self.opt)\n"
        "        self.scaler.update()\n"
    ),
    "unscaled by a base class out of sight": (
        "from lib import Base\n\n\nclass Trainer(Base):\n"
        "    def step(self, x):\n"
        "        self.scaler.scale(self.model(x)).backward()\n"
        "        super().prepare()\n"
        "        clip_grad_norm_(self.model.parameters(), 1.0)\n"
        "        self.scaler.step(self.opt)\n"
        "        self.scaler.update()\n"
    ),
    "unscaled by what such a class keeps": (
        "from lib import Base\n\n\nclass Trainer(Base):\n"
        "    def step(self, x):\n"
        "        self.scaler.scale(self.model(x)).backward()\n"
        '        self.hooks.fire("before clip")\n'
        "        clip_grad_norm_(self.model.parameters(), 1.0)\n"
        "        self.scaler.step(self.opt)\n"
        "        self.scaler.update()\n"
    ),
    "unscaled by a property": (
        "class Trainer:\n"
        "    @property\n"
        "    def ready(self):\n        self.scaler.unscale_(self.opt)\n        return True\n"
        "    def step(self, x):\n"
        "        self.scaler.scale(self.model(x)).backward()\n"
        "        if self.ready:\n            clip_grad_norm_(self.model.parameters(), 1.0)\n"
        "        self.scaler.step(self.opt)\n"
        "        self.scaler.update()\n"
    ),
    "unscaled by entering a context": (
        "class Unscaled:\n    def __enter__(self):\n        self.scaler.unscale_(self.opt)\n\n\n"
        + loop(f"with unscaled:\n    {CLIP}", before="unscaled = Unscaled()")
    ),
    "handed to whoever takes what is yielded": loop(f"yield x\n{CLIP}"),
    "bounded by a number computed from the scale": loop(
        "bound = 1.0 * scaler.get_scale()\nclip_grad_norm_(model.parameters(), bound)"
    ),
    "divided by the scale in one call for all": loop(
        f"inverse = 1.0 / scaler.get_scale()\ngrads = [p.grad for p in model.parameters()]\n"
        f"torch._foreach_mul_(grads, inverse)\n{CLIP}"
    ),
    "bounded below by zero": loop("for p in model.parameters():\n    p.grad.clamp_(min=0)"),
    "not bounded at all": loop('clip_grad_norm_(model.parameters(), float("inf"))'),
    "of two scalers, the first's unscaled": (
        "def train(a, b, oa, ob, sa, sb, x):\n"
        "    sa.scale(a(x)).backward()\n"
        "    sa.unscale_(oa)\n"
        "    sb.scale(b(x)).backward()\n"
        "    clip_grad_norm_(a.parameters(), 1.0)\n"
        "    sb.unscale_(ob)\n"
        "    clip_grad_norm_(b.parameters(), 1.0)\n"
        "    sa.step(oa)\n    sb.step(ob)\n    sa.update()\n    sb.update()\n"
    ),
    "of two modes that exclude each other": (
        "def train(model, opt, scaler, mode, x):\n"
        '    if mode == "fp16":\n        scaler.scale(model(x)).backward()\n'
        '    elif mode == "fp32":\n        model(x).backward()\n'
        f'    if mode == "fp32":\n        {CLIP}\n        opt.step()\n'
        '    elif mode == "fp16":\n        scaler.step(opt)\n        scaler.update()\n'
    ),
    "of two cases": (
        "def train(model, opt, scaler, mode, x):\n"
        '    match mode:\n        case "fp16":\n            scaler.scale(model(x)).backward()\n'
        "        case _:\n            model(x).backward()\n"
        '    match mode:\n        case "fp16":\n            scaler.step(opt)\n            scaler.update()\n'
        f"        case _:\n            {CLIP}\n            opt.step()\n"
    ),
    "where the configuration is None": (
        "def train(model, opt, scaler, cfg, x):\n"
        "    if cfg:\n        scaler.scale(model(x)).backward()\n"
        "    else:\n        model(x).backward()\n"
        f"    if cfg is None:\n        {CLIP}\n        opt.step()\n"
        "    else:\n        scaler.step(opt)\n        scaler.update()\n"
    ),
    "in the else of a loop that was left before": (
        "def train(model, opt, scaler, xs):\n"
        "    for x in xs:\n"
        "        scaler.scale(model(x)).backward()\n"
        "        if x:\n            break\n"
        "        scaler.unscale_(opt)\n"
        f"    else:\n        {CLIP}\n"
        "    scaler.step(opt)\n    scaler.update()\n"
    ),
    "of parameters that another unscaled optimizer holds too": (
        "def train(g, d, x):\n"
        "    og = torch.optim.SGD(g.parameters(), 0.1)\n"
        "    both = torch.optim.SGD(list(d.parameters()) + list(g.parameters()), 0.1)\n"
        '    scaler = torch.amp.GradScaler("cuda")\n'
        "    scaler.scale(d(g(x))).backward()\n"
        "    scaler.unscale_(both)\n"
        "    clip_grad_norm_(g.parameters(), 1.0)\n"
        "    scaler.step(both)\n    scaler.update()\n    og.zero_grad()\n"
    ),
    "of an optimizer whose gradients never were scaled": (
        "def train(g, d, x):\n"
        "    og = torch.optim.SGD(g.parameters(), 0.1)\n"
        "    od = torch.optim.SGD(d.parameters(), 0.1)\n"
        '    scaler = torch.amp.GradScaler("cuda")\n'
        "    d(x).backward()\n"
        "    og.zero_grad()\n"
        "    scaler.scale(g(x)).backward()\n"
        "    scaler.unscale_(og)\n"
        "    clip_grad_norm_(d.parameters(), 1.0)\n"
        "    scaler.step(og)\n    od.step()\n    scaler.update()\n"
    ),
    "in a function that anyone may call": (
        f"def finish(model, opt, scaler):\n    {CLIP}\n    scaler.step(opt)\n    scaler.update()\n"
    ),
    "in a method of a class whose base is elsewhere": (
        "from lib import Base\n\n\nclass Trainer(Base):\n"
        "    def __init__(self):\n"
        '        self.scaler = torch.amp.GradScaler("cuda")\n'
        "    def backward(self, x):\n        self.scaler.scale(self.model(x)).backward()\n"
        "    def finish(self):\n        clip_grad_norm_(self.model.parameters(), 1.0)\n"
        "        self.scaler.step(self.opt)\n        self.scaler.update()\n"
    ),
}


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_silent(body: str) -> None:
    ast.parse(body)
    assert found(body) == []


FOUND = {
    "plainly": loop(CLIP),
    "behind a number that counts": loop(f"if i % k == 0:\n    scaler.unscale_(opt)\n{CLIP}"),
    "in a while": loop(CLIP).replace("for i, x in enumerate(loader)", "while (x := loader())"),
    "in an async function": "async " + loop(f"await x\n{CLIP}"),
    "behind calls that have nothing to do with it": loop(f"x.mean().item()\nprint(i, x)\n{CLIP}"),
    "in the arm of a case": loop(f'match k:\n    case "norm":\n        {CLIP}\n    case _:\n        pass'),
    "where unscaling comes too late": loop(f"{CLIP}\nscaler.unscale_(opt)"),
    "of an optimizer of its own": (
        "def train(g, d, x):\n"
        "    og = torch.optim.SGD(g.parameters(), 0.1)\n"
        "    od = torch.optim.SGD(d.parameters(), 0.1)\n"
        '    scaler = torch.amp.GradScaler("cuda")\n'
        "    scaler.scale(d(g(x))).backward()\n"
        "    scaler.unscale_(od)\n"
        "    clip_grad_norm_(g.parameters(), 1.0)\n"
        "    scaler.step(og)\n    scaler.step(od)\n    scaler.update()\n"
    ),
    "in another method of a class that is whole": (
        "class Trainer:\n"
        "    def __init__(self, model):\n"
        "        self.model = model\n"
        '        self.scaler = torch.amp.GradScaler("cuda")\n'
        "    def backward(self, x):\n        self.scaler.scale(self.model(x)).backward()\n"
        "    def finish(self):\n        clip_grad_norm_(self.model.parameters(), 1.0)\n"
        "        self.scaler.step(self.opt)\n        self.scaler.update()\n"
    ),
}


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_found(body: str) -> None:
    ast.parse(body)
    assert len(found(body)) == 1
    assert "clip_grad_norm_" in found(body)[0]


# --- the fix ----------------------------------------------------------------------------------------------------------


def test_unscale_goes_right_before_the_clip() -> None:
    assert fixed(loop(f"# keep it small\n{CLIP}  # why")) == loop(
        f"# keep it small\nscaler.unscale_(opt)\n{CLIP}  # why"
    )


def test_under_the_condition_under_which_the_gradients_are_scaled() -> None:
    body = (
        "def train(model, opt, scaler, x, amp):\n"
        "    if amp:\n        scaler.scale(model(x)).backward()\n"
        "    else:\n        model(x).backward()\n"
        f"    {CLIP}\n"
        "    if amp:\n        scaler.step(opt)\n        scaler.update()\n"
        "    else:\n        opt.step()\n"
    )
    assert fixed(body) == body.replace(f"    {CLIP}\n", f"    if amp:\n        scaler.unscale_(opt)\n    {CLIP}\n")


def test_a_condition_in_names_that_come_later_is_not_asked_earlier() -> None:
    body = (
        "class Trainer:\n"
        "    def step(self, x):\n"
        "        if self.scaler is not None:\n            self.scaler.scale(self.model(x)).backward()\n"
        "        else:\n            self.model(x).backward()\n"
        "        clip_grad_norm_(self.model.parameters(), 1.0)\n"
        "        scaler = self.scaler\n"
        "        if scaler is not None:\n            scaler.step(self.opt)\n            scaler.update()\n"
        "        else:\n            self.opt.step()\n"
    )
    assert "assigned only after this line" in withheld(body)


def test_the_last_of_several_optimizers_is_not_taken_for_all() -> None:
    body = (
        "def train(model, opts, scaler, x):\n"
        "    for opt in opts:\n        opt.zero_grad()\n"
        "    scaler.scale(model(x)).backward()\n"
        f"    {CLIP}\n"
        "    for opt in opts:\n        scaler.step(opt)\n"
        "    scaler.update()\n"
    )
    assert "which of several optimizers" in withheld(body)


def test_one_unscale_serves_the_arms_of_an_if() -> None:
    body = loop(f"if k:\n    {CLIP}\nelif amp:\n    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)")
    once = fix(IMPORTS + body)
    assert once.count("scaler.unscale_(opt)\n        if k:") == 1
    assert once.count("unscale_") == 1
    assert not [each for each in check(once) if each.code == "AMP401"]


def test_statements_on_the_clips_own_line_stay() -> None:
    body = loop(f"{CLIP}; x = None")
    assert fixed(body) == loop(f"scaler.unscale_(opt)\n{CLIP}; x = None")
    assert "on one line with other code" in withheld(loop(f"if k: {CLIP}"))


def test_line_ends_and_characters_stay() -> None:
    body = loop(f'name = "größe"\n{CLIP}  # ß').replace("\n", "\r\n")
    text = IMPORTS.replace("\n", "\r\n") + body
    once = fix(text)
    assert once == text.replace(f"        {CLIP}", f"        scaler.unscale_(opt)\r\n        {CLIP}")


MICRO = (
    "def train(model, opt, scaler, loader, k):\n"
    "    for i, x in enumerate(loader):\n"
    "        scaler.scale(model(x)).backward()\n"
    "{clip}"
    "        if (i + 1) % k == 0:\n"
    "            # now\n"
    "{moved}"
    "            scaler.step(opt)\n"
    "            scaler.update()\n"
    "            opt.zero_grad()\n"
)


def test_clipping_on_micro_steps_moves_with_its_comments() -> None:
    before = MICRO.format(clip=f"        # small\n        {CLIP}  # why\n", moved="")
    after = f"            scaler.unscale_(opt)\n            # small\n            {CLIP}  # why\n"
    assert fixed(before, Applicability.UNSAFE) == MICRO.format(clip="", moved=after)


@pytest.mark.parametrize(
    "clip",
    [
        "        norm = clip_grad_norm_(model.parameters(), 1.0)\n",
        "        clip_grad_norm_(model.parameters(), k)\n        k = 1\n",
        "        clip_grad_norm_(model.parameters(), 1.0); print(i)\n",
        "        if i % 2 == 0:\n            clip_grad_norm_(model.parameters(), 1.0)\n",
    ],
    ids=["its result is used", "a name changes in between", "its line holds more", "its condition counts"],
)
def test_clipping_on_micro_steps_stays_where_moving_it_would_change_more(clip: str) -> None:
    assert "on micro steps" in withheld(MICRO.format(clip=clip, moved=""))


def test_clipping_does_not_move_into_one_arm_of_several() -> None:
    body = MICRO.format(clip=f"        {CLIP}\n", moved="") + "        elif k:\n            print(k)\n"
    assert "on micro steps" in withheld(body)


@pytest.mark.parametrize("bound", ["65536.0", "BOUND", "Config.bound"])
def test_a_bound_tuned_to_scaled_gradients_is_a_doubt(bound: str) -> None:
    body = "BOUND = 1e5\n\n\nclass Config:\n    bound = 1e7\n\n\n" + loop(
        f"clip_grad_norm_(model.parameters(), {bound})"
    )
    assert "unscale_" in fixed(body, Applicability.UNSAFE)


@pytest.mark.parametrize("bound", ["k", "2.0**20", "self.bound"])
def test_a_bound_is_followed_to_its_number(bound: str) -> None:
    body = (
        "class Trainer:\n"
        "    bound = 0\n"
        "    def __init__(self):\n        self.bound = 1e6\n"
        "    def train(self, model, opt, scaler, x, k=1e6):\n"
        "        scaler.scale(model(x)).backward()\n"
        f"        clip_grad_norm_(model.parameters(), max_norm={bound})\n"
        "        scaler.step(opt)\n        scaler.update()\n"
    )
    assert "unscale_" in fixed(body, Applicability.UNSAFE)


def test_a_doubt_about_one_clip_is_one_about_all_that_the_call_serves() -> None:
    body = loop(f"if k:\n    clip_grad_norm_(model.parameters(), 1e9)\n{CLIP}")
    findings = [each for each in check(IMPORTS + body) if each.code == "AMP401"]
    assert [each.fix and each.fix.applicability for each in findings] == [Applicability.UNSAFE]
    assert "(which also fixes AMP401 on line" in findings[0].message


HALF = (
    "def train(xs, scaler, dtype=torch.float16):\n"
    "    model = {model}\n"
    "    opt = torch.optim.AdamW({parameters}, fused={fused})\n"
    "    for x in xs:\n"
    "        opt.zero_grad()\n"
    "        scaler.scale(model(x)).backward()\n"
    "        clip_grad_norm_({parameters}, 1.0)\n"
    "        scaler.step(opt)\n"
    "        scaler.update()\n"
)


@pytest.mark.parametrize(
    "model",
    ["Net().half().cuda()", "Net().to('cuda', dtype=torch.half)", "Net(dtype=torch.float16)", "Net().to(dtype)"],
)
def test_on_half_parameters_unscale_would_raise(model: str) -> None:
    body = HALF.format(model=model, parameters="model.parameters()", fused=True)
    assert "float16 parameters" in withheld(body)


def test_what_may_be_half_is_a_doubt_unless_the_step_would_raise_already() -> None:
    some = {"model": "Net()", "parameters": "model.parameters()"}
    half = "torch.set_default_dtype(torch.float16)\n\n\n"
    fixed(half + HALF.format(**some, fused=True), Applicability.UNSAFE)
    fixed(half + HALF.format(**some, fused=False))
    fixed(HALF.format(**some, fused=True))


@pytest.mark.parametrize(
    "use",
    [
        "norm = {clip} / scaler.get_scale()",
        "norm = {clip}\nlog(norm.item() / scaler.get_scale())",
        "scale = scaler.get_scale()\nnorm = {clip}\nnorm /= scale",
        "norm = {clip}\nnorm *= 1 / scaler.get_scale()",
    ],
)
def test_a_norm_that_is_divided_by_the_scale_would_be_divided_twice(use: str) -> None:
    assert "divided by the scale" in withheld(loop(use.format(clip=CLIP)))


METHOD = (
    "class Trainer:\n"
    "    def step(self, x):\n"
    "        self.scaler.scale(self.model(x)).backward()\n"
    "        norm = clip_grad_norm_(self.model.parameters(), 1.0)\n"
    "        if not norm.isfinite():\n"
    "            self.opt.zero_grad()\n"
    "            {leave}\n"
    "        self.scaler.step(self.opt)\n"
    "        self.scaler.update()\n"
    "        self.opt.zero_grad()\n"
)


def test_a_call_that_ends_before_the_update_leaves_the_next_one_unable_to_unscale() -> None:
    assert "some path skips `update()`" in withheld(METHOD.format(leave="return None"))
    assert "unscale_" in fixed(METHOD.format(leave="raise FloatingPointError"))
    assert "unscale_" in fixed(METHOD.format(leave="self.scaler.update()\n            return None"))


def test_a_scaler_that_ends_with_its_function_has_no_next_call() -> None:
    body = (
        "def train(model, opt, xs):\n"
        '    scaler = torch.amp.GradScaler("cuda")\n'
        "    for x in xs:\n"
        "        opt.zero_grad()\n"
        "        scaler.scale(model(x)).backward()\n"
        "        norm = clip_grad_norm_(model.parameters(), 1.0)\n"
        "        if norm > 9:\n            opt.zero_grad()\n            return norm\n"
        "        scaler.step(opt)\n        scaler.update()\n"
    )
    assert "unscale_" in fixed(body)


TRIED = (
    "def train(model, opt, scaler, xs):\n"
    "    for x in xs:\n"
    "        try:\n"
    "            opt.zero_grad()\n"
    "            scaler.scale(model(x)).backward()\n"
    "            clip_grad_norm_(model.parameters(), 1.0)\n"
    "            scaler.step(opt)\n"
    "            scaler.update()\n"
    "        except RuntimeError:\n"
    "            {handler}\n"
)


@pytest.mark.parametrize(
    ("handler", "applicability"),
    [
        ("continue", Applicability.UNSAFE),
        ("print('skipped')", Applicability.UNSAFE),
        ("raise", Applicability.SAFE),
        ("scaler.update()", Applicability.SAFE),
    ],
)
def test_an_exception_that_is_caught_leaves_out_the_update(handler: str, applicability: Applicability) -> None:
    assert "unscale_" in fixed(TRIED.format(handler=handler), applicability)


def test_two_clipped_models_need_both_owners() -> None:
    body = (
        "def train(a, b, x):\n"
        "    oa = torch.optim.SGD(a.parameters(), 0.1)\n"
        "    ob = torch.optim.SGD(b.parameters(), 0.1)\n"
        '    scaler = torch.amp.GradScaler("cuda")\n'
        "    scaler.scale(a(b(x))).backward()\n"
        "    clip_grad_norm_({}, 1.0)\n"
        "    scaler.step(oa)\n    scaler.step(ob)\n    scaler.update()\n"
    )
    assert "can't tell which of several" in withheld(body.format("list(a.parameters()) + list(b.parameters())"))
    assert re.search(r"unscale_\(ob\)\n    clip", fixed(body.format("b.parameters()")))


CHOSEN = {
    "by a condition": "optimizer = self.warm if step % 2 else self.main",
    "by a default": "optimizer = given or self.main",
    "by a method": "optimizer = self.optimizer_of(step)",
    "by an index": "optimizer = self.optimizers[step % 2]",
    "by a parameter": "optimizer = given",
}


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
@pytest.mark.parametrize("unscale", ["self.scaler.unscale_(optimizer)", "print(step)"])
def test_an_optimizer_chosen_in_each_iteration_may_be_any_that_owns_the_parameters(chosen: str, unscale: str) -> None:
    body = f"""class Trainer:
    def __init__(self, model, scaler):
        self.model = model
        self.scaler = scaler
        self.warm = torch.optim.SGD(model.parameters(), lr=0.1)
        self.main = torch.optim.Adam(model.parameters())
        self.optimizers = [self.warm, self.main]

    def optimizer_of(self, step):
        return self.optimizers[step % 2]

    def fit(self, loader, given=None):
        for step, batch in enumerate(loader):
            {chosen}
            self.main.zero_grad()
            self.scaler.scale(self.model(batch).mean()).backward()
            {unscale}
            clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(optimizer)
            self.scaler.update()
"""
    assert bool(found(body)) is ("unscale_" not in unscale)


def test_what_one_optimizer_was_unscaled_for_says_nothing_of_another_that_is_made_apart() -> None:
    body = """def train(critic, generator, loader, scaler):
    optimizer_c = torch.optim.Adam(critic.parameters())
    optimizer_g = torch.optim.Adam(generator.parameters())
    for batch in loader:
        optimizer_c.zero_grad()
        optimizer_g.zero_grad()
        scaler.scale(critic(generator(batch)).mean()).backward()
        scaler.unscale_(optimizer_g)
        clip_grad_norm_(critic.parameters(), 1.0)
        scaler.step(optimizer_c)
        scaler.step(optimizer_g)
        scaler.update()
"""
    assert found(body) == ["clip_grad_norm_(critic.parameters(), 1.0)"]


GIVEN_OR_MADE = {
    "parameters": ("critic, generator, optimizer_c, optimizer_g, scaler, loader", "pass"),
    "made by a function": (
        "critic, generator, scaler, loader",
        "optimizer_c, optimizer_g = make(critic), make(generator)",
    ),
    "unpacked": ("critic, generator, optimizers, scaler, loader", "optimizer_c, optimizer_g = optimizers"),
}
CLEARED = {
    "by the optimizer": ("optimizer_c.zero_grad()", "optimizer_g.zero_grad()"),
    "by the model": ("critic.zero_grad()", "generator.zero_grad()"),
    "both at the start": ("optimizer_c.zero_grad(); optimizer_g.zero_grad()", "pass"),
}


@pytest.mark.parametrize("cleared", CLEARED.values(), ids=CLEARED)
@pytest.mark.parametrize("form", GIVEN_OR_MADE.values(), ids=GIVEN_OR_MADE)
@pytest.mark.parametrize("missing", ["", "c", "g", "cg"])
def test_each_clip_of_two_losses_with_one_update_gets_the_unscale_of_its_own_optimizer(
    missing: str, form: tuple[str, str], cleared: tuple[str, str]
) -> None:
    def program(missing: str) -> str:
        lines = [f"def train({form[0]}):", f"    {form[1]}", "    for real, noise in loader:"]
        for each, model, loss, clear in (
            ("c", "critic", "critic(generator(noise).detach()).mean()", cleared[0]),
            ("g", "generator", "critic(generator(noise)).mean()", cleared[1]),
        ):
            lines += [f"        {clear}", f"        scaler.scale({loss}).backward()"]
            lines += [f"        scaler.unscale_(optimizer_{each})"] if each not in missing else []
            lines += [f"        clip_grad_norm_({model}.parameters(), 1.0)", f"        scaler.step(optimizer_{each})"]
        return "\n".join([*lines, "        scaler.update()", ""])

    models = {"c": "critic", "g": "generator"}
    assert found(program(missing)) == [f"clip_grad_norm_({models[each]}.parameters(), 1.0)" for each in missing]
    messages = [each.message for each in check(IMPORTS + program(missing)) if each.code == "AMP401"]
    for each, message in zip(missing, messages, strict=True):
        assert message.endswith(f"call `scaler.unscale_(optimizer_{each})` before the clip")
    assert fix(IMPORTS + program(missing)) == IMPORTS + program("")


def test_a_clip_is_wrong_under_no_condition_that_only_tells_the_iterations_apart() -> None:
    body = """def train(model, optimizer, scaler, loader):
    started = False
    for batch in loader:
        if started:
            optimizer.zero_grad()
        scaler.scale(model(batch).mean()).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        if not started:
            print("first")
        scaler.step(optimizer)
        scaler.update()
        started = True
"""
    (finding,) = [each for each in check(IMPORTS + body) if each.code == "AMP401"]
    assert finding.message.endswith("call `scaler.unscale_(optimizer)` before the clip")


@pytest.mark.parametrize("unscale", ["self.scaler.unscale_(optimizer)", "pass"])
def test_a_scaler_that_a_helper_was_given_may_be_the_one_that_scaled(unscale: str) -> None:
    body = f"""class Stepper:
    def __init__(self, scaler):
        self.scaler = scaler

    def step(self, model, optimizer):
        if self.scaler is not None:
            {unscale}
            clip_grad_norm_(model.parameters(), 1.0)
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()


class Trainer:
    def __init__(self, model, optimizers):
        self.model, self.optimizers = model, optimizers
        self.scaler = torch.amp.GradScaler("cuda")
        self.stepper = Stepper(self.scaler)

    def fit(self, loader, names):
        for batch in loader:
            for name in names:
                optimizer = self.optimizers[name]
                optimizer.zero_grad()
                loss = self.model(batch).mean()
                if self.scaler is not None:
                    self.scaler.scale(loss).backward()
                else:
                    loss.backward()
                self.stepper.step(self.model, optimizer)
"""
    assert found(body) == (["clip_grad_norm_(model.parameters(), 1.0)"] if unscale == "pass" else [])


APPLIED = f"{CLIP}\nscaler.step(opt)\nscaler.update()\nopt.zero_grad()"
BACKWARD = "scaler.scale(model(x)).backward()"


def indented(lines: str) -> str:
    """Lines inside of something."""
    return "".join(f"    {line}\n" for line in lines.splitlines())


def arms(test: str, boundary: str, backward_apart: bool) -> str:
    """A loop with an arm that accumulates and one that doesn't, each of which steps and clears."""
    accumulates = f"if {boundary}:\n{indented(APPLIED)}"
    first, other = (f"{BACKWARD}\n{each}" if backward_apart else each for each in (accumulates, APPLIED))
    body = f"{'' if backward_apart else BACKWARD}\nif {test}:\n{indented(first)}else:\n{indented(other)}"
    head = "    opt.zero_grad()\n    for i, x in enumerate(loader):\n"
    return f"def train(model, opt, scaler, loader, k, flag):\n{head}{indented(indented(body))}"


@pytest.mark.parametrize("backward_apart", [True, False])
@pytest.mark.parametrize("boundary", ["(i + 1) % k == 0", "i % k == 0"])
@pytest.mark.parametrize("test", ["k > 1", "flag"])
def test_arms_with_steps_of_their_own_unscale_by_themselves(test: str, boundary: str, backward_apart: bool) -> None:
    body = arms(test, boundary, backward_apart)
    every = [each for each in check(IMPORTS + body) if each.code == "AMP401"]
    assert [each.fix and each.fix.applicability for each in every] == [Applicability.SAFE] * 2
    after = fix(IMPORTS + body).removeprefix(IMPORTS)
    lines = [line.strip() for line in after.splitlines()]
    assert [lines[at + 1] for at, line in enumerate(lines) if line == "scaler.unscale_(opt)"] == [CLIP, CLIP]
    assert check(IMPORTS + after) == []


def test_arms_with_one_step_behind_them_share_an_unscale() -> None:
    clips = f"if k:\n    {CLIP}\nelse:\n    clip_grad_norm_(model.parameters(), 2.0)"
    after = fix(IMPORTS + loop(clips))
    assert after.count("unscale_") == 1
    assert "        scaler.unscale_(opt)\n        if k:\n" in after


def given(*lines: str, arguments: str = "model, scaler, opt") -> str:
    """A function that is given its objects, with the backward in what calls it."""
    return f"def apply({arguments}):\n" + "".join(f"    {line}\n" for line in lines)


def test_unscale_shows_that_the_gradients_that_a_function_is_given_were_scaled() -> None:
    body = given(CLIP, "scaler.unscale_(opt)", "scaler.step(opt)", "scaler.update()")
    assert found(body) == [CLIP]
    assert fixed(body) == given("scaler.unscale_(opt)", CLIP, "scaler.step(opt)", "scaler.update()")


@pytest.mark.parametrize(
    "body",
    [
        given(CLIP, "scaler.step(opt)", "scaler.update()"),  # the caller may unscale
        given(CLIP, "backward(model)", "scaler.unscale_(opt)", arguments="model, scaler, opt, backward"),
        given(CLIP, "scaler.step(one)", "scaler.unscale_(opt)", arguments="model, scaler, opt, one"),  # of the other
        given("if not scaler.is_enabled():", f"    {CLIP}", "else:", "    scaler.unscale_(opt)"),
    ],
)
def test_a_function_by_itself_that_may_clip_what_is_unscaled_is_right(body: str) -> None:
    assert found(body) == []


# What reads the gradients for the clip behind it: unscale_ has to come before the first of these lines.
READ_FIRST = {
    "by hand": (
        "total = torch.norm(torch.stack([p.grad.norm() for p in model.parameters()]))",
        "for p in model.parameters():\n    if total > 10.0:\n        p.grad.mul_(10.0 / total)\n"
        "torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)",
    ),
    "by torch": (
        "grads = [p.grad for p in model.parameters() if p.grad is not None]\n"
        "total = torch.nn.utils.get_total_norm(grads)",
        "torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, total)",
    ),
    "as a sum of squares": (
        "for p in model.parameters():\n    total += p.grad.norm() ** 2",
        "torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, total**0.5)",
    ),
    "by a function of the file": (
        "total = norm_of(model)",
        "clip_grad_norm_(model.parameters(), min(1.0, 0.1 * total))",
    ),
    "out of sight": (
        "total = norms.total(model)",
        "torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, total)",
    ),
}
NORM_OF = "def norm_of(model):\n    return torch.stack([p.grad.norm() for p in model.parameters()]).norm()\n\n\n"


@pytest.mark.parametrize("late", ["", "scaler.unscale_(opt)"])
@pytest.mark.parametrize("form", READ_FIRST.values(), ids=READ_FIRST)
def test_unscale_goes_before_the_norm_that_a_clip_uses(form: tuple[str, str], late: str) -> None:
    read, clip = form
    once = fix(IMPORTS + NORM_OF + loop(f"total = 0.0\n{read}\n{clip}\n{late}".rstrip()))
    assert once == IMPORTS + NORM_OF + loop(f"total = 0.0\nscaler.unscale_(opt)\n{read}\n{clip}")


@pytest.mark.parametrize(
    "middle",
    [
        "if not torch.isfinite(total):\n    continue\n{clip}",
        "scaler.scale(model(-x)).backward()\n{clip}",
    ],
)
def test_unscale_goes_before_no_norm_from_which_a_path_leads_elsewhere(middle: str) -> None:
    clip = "torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, total)"
    assert "computed earlier" in withheld(NORM_OF + loop(f"total = norm_of(model)\n{middle.format(clip=clip)}"))


def test_a_norm_that_the_caller_gives_was_read_before() -> None:
    clip = "torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, total)"
    assert "computed earlier" in withheld(loop(clip, "model, opt, scaler, loader, total"))


ACCUMULATED = """def train(model, loader, optimizer, scaler, every):
    for step, batch in enumerate(loader):
        scaler.scale(model(batch) / every).backward()
        EACH
        if (step + 1) % every == 0:
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        if step % 1000 == 0:
            SAVE


def size(model, scale=1.0):
    return sum((p.grad / scale).norm().item() for p in model.parameters())
"""


def messages(each: str, save: str = "pass") -> list[str]:
    text = IMPORTS + ACCUMULATED.replace("EACH", each).replace("SAVE", save)
    return [each.message for each in check(text) if each.code in ("AMP401", "AMP409")]


def test_where_more_backward_passes_may_come_before_the_update_no_unscale_is_advised_there() -> None:
    (message,) = messages("pass", "print(sum(p.grad.norm().item() for p in model.parameters()))")
    assert message.startswith("when `(step + 1) % every != 0`, ")
    (message,) = messages("print(sum(p.grad.norm().item() for p in model.parameters()))")
    assert "read `grad / scaler.get_scale()`" in message
    (message,) = messages("for p in model.parameters(): p.grad.add_(torch.randn_like(p.grad))")
    assert message.endswith("change gradients only where the optimizer steps, after `scaler.unscale_(optimizer)`")
    for clip in ("clip_grad_norm_(model.parameters(), 1.0)", "[clip_grad_norm_(m.parameters(), 1.0) for m in [model]]"):
        (message,) = messages(clip)
        assert "call `scaler.unscale_(optimizer)` before the clip, and do both only if the optimizer steps" in message
    assert messages("pass", "print(size(model, scaler.get_scale()))") == []


def test_an_unscale_that_comes_behind_a_clip_is_to_be_moved() -> None:
    (message,) = [
        each.message
        for each in check(
            IMPORTS
            + """def train(model, loader, optimizer, scaler, log):
    for batch in loader:
        scaler.scale(model(batch)).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        log(scaler.unscale_(optimizer))
        scaler.step(optimizer)
        scaler.update()
"""
        )
        if each.code == "AMP401"
    ]
    assert message.endswith("move `scaler.unscale_(optimizer)` from line 10 to before this line")


EPOCH = """\
import torch
from torch.nn.utils import clip_grad_norm_


def epoch(model, loader, opt, scaler, training):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        if training:
            opt.zero_grad()
            scaler.scale(loss).backward()
            # EARLY
        # BODY


def main(model, tr, va):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(5):
        epoch(model, tr, opt, scaler, True)
        epoch(model, va, OTHERS, False)
"""
CLIP, STEPS = "clip_grad_norm_(model.parameters(), 1.0)", "scaler.step(opt)\n    scaler.update()"
IF_SMALL = f"norm = {CLIP}\nif training and norm < 9:\n    scaler.step(opt)\nif training:\n    scaler.update()"


def epoch(early: str, body: str, others: str) -> str:
    text = EPOCH.replace("OTHERS", others)
    for mark, lines, margin in (("# EARLY", early, 12), ("# BODY", body, 8)):
        text = text.replace(mark, lines.replace("\n", "\n" + " " * margin))
    return text


@pytest.mark.parametrize("others", ["None, None", "opt, scaler"])
@pytest.mark.parametrize(
    ("early", "body"),
    [
        (f"scaler.unscale_(opt)\n{CLIP}\nscaler.step(opt)\nscaler.update()", "pass"),
        ("scaler.unscale_(opt)", f"{CLIP}\nif training:\n    {STEPS}"),
        ("pass", f"if training:\n    scaler.unscale_(opt)\n{CLIP}\nif training:\n    {STEPS}"),
        ("scaler.unscale_(opt)", IF_SMALL),
        ("scaler.unscale_(opt)", f"{CLIP}\nif not training:\n    continue\nscaler.step(opt)\nscaler.update()"),
    ],
)
def test_a_clip_that_an_evaluation_comes_to_as_well_is_right(early: str, body: str, others: str) -> None:
    assert check(epoch(early, body, others)) == []


@pytest.mark.parametrize("others", ["None, None", "opt, scaler"])
@pytest.mark.parametrize(
    ("early", "body"),
    [
        ("scaler.step(opt)\nscaler.update()", CLIP),
        ("scaler.unscale_(opt)\nscaler.step(opt)", f"{CLIP}\nif training:\n    scaler.update()"),
        ("scaler.unscale_(opt)\nif flag:\n    scaler.step(opt)", f"{CLIP}\nif training and not flag:\n    {STEPS}"),
    ],
)
def test_a_clip_behind_the_step_of_its_own_turn_is_found(early: str, body: str, others: str) -> None:
    assert "AMP419" in [each.code for each in check(epoch(early, body, others))]


HOOKED = """\
def train(model, optimizer, batches, bound, amp: bool, mask):
    scaler = torch.amp.GradScaler("cuda", enabled=amp)

    def hook({}):
        {}

    {}
    for x in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
"""
ON_ALL = "for p in model.parameters():\n    p.register_hook({})"
ON_ACCUMULATED = "for p in model.parameters():\n    p.register_post_accumulate_grad_hook(hook)"


def hooked(parameter: str, body: str, registered: str) -> list[str]:
    """What AMP401 reports of a hook."""
    return found(HOOKED.format(parameter, body.replace("\n", "\n        "), registered.replace("\n", "\n    ")))


@pytest.mark.parametrize(
    "hook",
    [
        "return grad.clamp(-bound, bound)",
        "return torch.clip(grad, min=-1.0, max=1.0)",
        "return grad.clamp_(-0.5, 0.5)",
        "grad = torch.nan_to_num(grad)\nout = grad.clamp(-1, 1)\nreturn out",
        "norm = grad.norm()\nif norm > 1.0:\n    grad = grad / norm\nreturn grad",
        "return grad * (bound / (grad.norm() + 1e-6)).clamp(max=1.0)",
        "return grad / max(1.0, grad.norm().item() / bound)",
    ],
)
def test_hooks_that_clip_are_found(hook: str) -> None:
    assert hooked("grad", hook, ON_ALL.format("hook")) == ["p.register_hook(hook)"]


@pytest.mark.parametrize(
    "hook",
    [
        "p.grad.clamp_(-bound, bound)",
        "p.grad = torch.clamp(p.grad, -1, 1)",
        "clip_grad_norm_([p], 1.0)",
        "norm = p.grad.norm()\nif norm > 5:\n    p.grad.mul_(5 / norm)",
    ],
)
def test_hooks_that_clip_what_has_been_accumulated_are_found(hook: str) -> None:
    assert hooked("p", hook, ON_ACCUMULATED) == ["p.register_post_accumulate_grad_hook(hook)"]


@pytest.mark.parametrize(
    "registered",
    [
        "[p.register_hook(lambda grad: grad.clamp(-1, 1)) for p in model.parameters()]",
        ON_ALL.format("partial(torch.clamp, min=-1, max=1)"),
        ON_ALL.format("partial(hook)"),
        "if amp:\n    model.weight.register_hook(hook)",
    ],
)
def test_wherever_a_hook_is_registered(registered: str) -> None:
    assert hooked("grad", "return grad.clamp(-1, 1)", registered) == [registered.splitlines()[-1].strip()]


@pytest.mark.parametrize(
    ("parameter", "hook", "registered"),
    [
        ("grad", "return grad.clamp(-1, 1)", "if not amp:\n    model.weight.register_hook(hook)"),
        ("grad", "return grad.clamp(-1, 1) if scaler is None else grad / scaler.get_scale()", ON_ALL.format("hook")),
        ("grad", "return grad * 0.1", ON_ALL.format("hook")),
        ("grad", "return grad.clamp(0)", ON_ALL.format("hook")),
        ("grad", "print(grad.clamp(-1, 1))\nreturn grad", ON_ALL.format("hook")),
        ("grad", "if grad.norm() > bound:\n    print(grad.norm())", ON_ALL.format("hook")),
        ("grad", "return grad / (grad.norm() + 1e-6)", ON_ALL.format("hook")),
        ("grad", "return grad * mask.clamp(0, 1)", ON_ALL.format("hook")),
        ("p", "print(p.grad.clamp(-1, 1))", ON_ACCUMULATED),
        ("p", "p.data.clamp_(-1, 1)", ON_ACCUMULATED),
    ],
)
def test_hooks_that_clip_nothing_scaled_are_right(parameter: str, hook: str, registered: str) -> None:
    assert hooked(parameter, hook, registered) == []


def test_hooks_of_an_object_whose_base_keeps_the_scaler() -> None:
    base = "class Base:\n    def __init__(self, fp16):\n        self.scaler = torch.cuda.amp.GradScaler({})\n"
    engine = "\nclass Engine(Base):\n    def watch(self, p):\n        p.register_hook(lambda grad: grad.clamp(-1, 1))\n"
    assert found(base.format("enabled=fp16") + engine) == ["p.register_hook(lambda grad: grad.clamp(-1, 1))"]
    assert found(base.format("enabled=False") + engine) == []


TWO_CLIPS = """\
import torch


class Runner:
    def __init__(self, model, optimizer, amp, norm=0, value=0):
        self.model, self.optimizer, self.norm, self.value = model, optimizer, norm, value
        self.scaler = torch.amp.GradScaler("cuda", enabled=amp)

    def train(self, batches):
        for x in batches:
            self.optimizer.zero_grad()
            self.scaler.scale(self.model(x).mean()).backward()
            if self.norm > 0:
                torch.nn.utils.clip_grad_norm_(self.{first}.parameters(), self.norm)
            if self.value > 0:
                torch.nn.utils.clip_grad_value_(self.model.parameters(), self.value)
            if hasattr(self.model, "decorate"):
                self.model.decorate(self, x)
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


def test_two_clips_of_the_same_gradients_are_one_finding() -> None:
    found = [each for each in check(TWO_CLIPS.format(first="model")) if each.code == "AMP401"]
    assert [each.message.partition("(which")[2] for each in found] == [" also fixes AMP401 on line 16)"]
