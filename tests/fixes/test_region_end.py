"""Ending a region earlier: what moves, what stays, and what is not touched (AMP301, AMP302)."""

from __future__ import annotations

import ast

import pytest

from amplint import Applicability, check, fix

HEAD = "import torch\n\n\ndef step(model, x, y, flag, ctxs, meter, metric, tensor):\n"


def indented(body: str) -> str:
    return HEAD + "".join(f"    {line}" if line.strip() else line for line in body.splitlines(keepends=True))


def fixed(body: str, applicability: Applicability = Applicability.SAFE) -> str:
    """The body after the fix of its one backward inside a region."""
    text = indented(body)
    (finding,) = [each for each in check(text) if each.code == "AMP301"]
    assert finding.fix is not None, finding.withheld
    assert finding.fix.applicability is applicability
    unsafe = applicability is Applicability.UNSAFE
    once = fix(text, unsafe=unsafe)
    ast.parse(once)
    assert fix(once, unsafe=unsafe) == once
    assert not [each for each in check(once) if each.code == "AMP301"]
    return "".join(line.removeprefix("    ") for line in once.removeprefix(HEAD).splitlines(keepends=True))


def withheld(body: str) -> str:
    """Why there is no fix of what is found."""
    text = indented(body)
    (finding,) = [each for each in check(text) if each.code == "AMP301"]
    assert finding.fix is None
    assert fix(text, unsafe=True) == text
    return finding.withheld or ""


def test_backward_and_what_follows_it_leave() -> None:
    assert fixed(
        'with torch.autocast("cuda"):  # amp\n'
        "    loss = model(x)  # forward\n"
        "\n"
        "    # on to the gradients\n"
        "    loss.backward()  # back\n"
        "    print(loss.item())\n"
    ) == (
        'with torch.autocast("cuda"):  # amp\n'
        "    loss = model(x)  # forward\n"
        "\n"
        "# on to the gradients\n"
        "loss.backward()  # back\n"
        "print(loss.item())\n"
    )


def test_strings_over_several_lines_keep_their_text() -> None:
    before = (
        'with torch.autocast("cuda"):\n'
        "    loss = model(x)\n"
        "    loss.backward()\n"
        '    print("""\n'
        "    kept\n"
        '  """, f"""{\n'
        "    loss}\n"
        '    text""", "a \\\n'
        '    b")\n'
    )
    after = fixed(before)
    # `fixed` takes four columns from each line, those inside strings too: compared as it went in.
    assert indented(after).count("        kept") == 1
    assert ast.dump(ast.parse(indented(after)).body[-1].body[-1].value.args[0]) == (  # type: ignore[attr-defined]
        ast.dump(ast.parse(indented(before)).body[-1].body[-1].body[-1].value.args[0])  # type: ignore[attr-defined]
    )


def test_tabs_and_lines_that_go_on() -> None:
    text = (
        "import torch\n\n\ndef step(model, x):\n"
        '\twith torch.autocast("cuda"):\n'
        "\t\tloss = model(\n\t\t  x)\n"
        "\t\tloss \\\n\t\t\t.backward(\n\tretain_graph=True)\n"
        "\treturn loss\n"
    )
    once = fix(text)
    assert once == text.replace("\t\tloss \\\n\t\t\t.back", "\tloss \\\n\t\t.back").replace("(\n\tretain", "(\nretain")
    ast.parse(once)


def test_line_ends_and_characters_stay() -> None:
    text = indented('with torch.autocast("cuda"):\n    größe = model(x)\n    größe.backward()  # ü\n').replace(
        "\n", "\r\n"
    )
    assert fix(text) == text.replace("        größe.back", "    größe.back")


def test_a_suite_that_leaves_the_loop_or_function() -> None:
    body = (
        "for each in x:\n"
        '    with torch.autocast("cuda"):\n'
        "        loss = model(each)\n"
        "        if loss > 3:\n"
        "            continue\n"
        "        loss.backward()\n"
        "        if loss < 0:\n"
        "            break\n"
        "        return loss.item()\n"
    )
    head, tail = body.split("        loss.backward()")
    assert fixed(body) == head + ("        loss.backward()" + tail).replace("\n    ", "\n").removeprefix("    ")


def test_the_region_is_opened_again_for_what_computes() -> None:
    assert fixed(
        'with torch.autocast("cuda", enabled=flag):\n'
        "    loss = model(x)\n"
        "    loss.backward()\n"
        "    # again\n"
        "    other = model(y)\n"
    ) == (
        'with torch.autocast("cuda", enabled=flag):\n'
        "    loss = model(x)\n"
        "loss.backward()\n"
        'with torch.autocast("cuda", enabled=flag):\n'
        "    # again\n"
        "    other = model(y)\n"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "x @= y",
        "z = [each for each in model(x)]",
        "z = model(x)",
        "z = x[0] @ y",
        "z = [v @ y for v in x]",
    ],
)
def test_what_runs_a_forward_stays_in_the_region(statement: str) -> None:
    body = f'with torch.autocast("cuda"):\n    loss = model(x)\n    loss.backward()\n    {statement}\n'
    assert fixed(body).endswith(f'loss.backward()\nwith torch.autocast("cuda"):\n    {statement}\n')


@pytest.mark.parametrize(
    "statement",
    [
        "x = x ** 2",
        "z = 1 / loss",
        "metric.update(z, y)",
        "z = tensor.sum()",
        "z = loss.log()",
        "z = len(x) / loss",
    ],
)
def test_where_what_computes_with_tensors_runs_no_forward_there_is_no_fix(statement: str) -> None:
    with pytest.raises(AssertionError, match="amplint sees no forward pass in the rest"):
        fixed(f'with torch.autocast("cuda"):\n    loss = model(x)\n    loss.backward()\n    {statement}\n')


@pytest.mark.parametrize(
    "statement",
    [
        "total = loss.item() / len(x)",
        "meter.update(loss.item(), x.size(0))",
        "loss = loss / 4",
        "part = 1.0 / x.size(0)",
        "flag += 1",
        "print(f'{loss.item():.3f}')",
        "return loss.item()",
        "z = loss.detach().cpu()",
        "meter.log(loss=loss.item())",
        "z = {k: v.item() for k, v in ctxs.items()}",
        "z = loss.item() / len(x)",
        "torch.cuda.synchronize()",
        "raise FloatingPointError(f'loss {loss.item()}')",
    ],
)
def test_what_reports_leaves_it(statement: str) -> None:
    body = f'with torch.autocast("cuda"):\n    loss = model(x)\n    loss.backward()\n    {statement}\n'
    assert fixed(body).endswith(f"    loss = model(x)\nloss.backward()\n{statement}\n")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('with torch.autocast("cuda"): x.backward()\n', "on one line with other code"),
        ('with torch.autocast("cuda"):\n    loss = model(x); loss.backward()\n', "on one line with other code"),
        (
            'with torch.autocast("cuda"):\n    loss = model(x)\n    loss.backward(); print(1)\n',
            "on one line with other code",
        ),
        (
            'with torch.autocast("cuda"):  # amp\n    loss = model(x)\n    loss.backward()\n    z = model(x)\n',
            "can't keep in place",
        ),
        (
            'with torch.autocast("cuda", enabled=flag):\n    loss = model(x)\n    loss.backward()\n    flag = False\n'
            "    z = model(x)\n",
            "has changed",
        ),
        (
            'with torch.autocast("cuda", enabled=next(ctxs)):\n    loss = model(x)\n    loss.backward()\n'
            "    z = model(x)\n",
            "has changed",
        ),
        ('with torch.autocast("cuda") as region:\n    x.backward()\nprint(region)\n', "`as` name"),
        (
            'with torch.autocast("cuda"), model.no_sync():\n    loss = model(x)\n    loss.backward()\n',
            "would also end `model.no_sync()`",
        ),
        (
            'with torch.autocast("cuda"):\n    loss = model(x)\n    with model.no_sync():\n        loss.backward()\n',
            "may need the region",
        ),
        ('with torch.autocast("cuda"):\n    for each in x:\n        model(each).backward()\n', "may need the region"),
        ('region = torch.autocast("cuda")\nregion.__enter__()\nmodel(x).backward()\n', "entered without a `with`"),
    ],
)
def test_no_fix(body: str, reason: str) -> None:
    assert reason in withheld(body)


@pytest.mark.parametrize(
    ("enabled", "change"),
    [
        ("len(ctxs) < 3", "ctxs.append(loss.item())"),
        ("ctxs[0]", "ctxs[0] = False"),
        ("ctxs[0]", "del ctxs[0]"),
        ("bool(ctxs)", "ctxs.clear()"),
        ("meter.amp", "meter.flip()"),
    ],
)
def test_a_region_is_not_opened_again_on_what_has_changed(enabled: str, change: str) -> None:
    body = (
        "class Meter:\n    def flip(self):\n        self.amp = not self.amp\n\n"
        f'with torch.autocast("cuda", enabled={enabled}):\n'
        f"    loss = model(x)\n    loss.backward()\n    {change}\n    z = model(x)\n"
    )
    assert "has changed" in withheld(body)


def test_a_region_is_opened_again_on_what_a_constructor_has_set() -> None:
    body = (
        "class Meter:\n    def __init__(self):\n        self.amp = True\n\n"
        'with torch.autocast("cuda", enabled=meter.amp and ctxs["amp"]):\n'
        "    loss = model(x)\n    loss.backward()\n    z = model(x)\n"
    )
    assert fixed(body).count('enabled=meter.amp and ctxs["amp"]') == 2


def test_a_with_of_several_lines_only_loses_its_tail() -> None:
    body = 'with (\n    torch.autocast("cuda"),  # amp\n):\n    loss = model(x)\n    loss.backward()\n'
    assert fixed(body) == body.replace("    loss.backward", "loss.backward")


def test_other_contexts_stay_round_what_moves() -> None:
    assert fixed('with model.no_sync(), torch.autocast("cuda"):\n    loss = model(x)\n\n    loss.backward()\n') == (
        'with model.no_sync():\n    with torch.autocast("cuda"):\n        loss = model(x)\n\n    loss.backward()\n'
    )


HOOKED = (
    "def report(grad):\n    print(grad.dtype)\n\n"
    "def project(grad):\n    return torch.matmul(grad, y)\n\n"
    'with torch.autocast("cuda"):\n'
    "    out = model(x)\n"
    "    {hook}\n"
    "    loss = out.mean()\n"
    "    loss.backward()\n"
)


@pytest.mark.parametrize(
    "hook", ["out.register_hook(report)", "out.register_hook(lambda grad: meter.append(grad.dtype))"]
)
def test_a_hook_that_reports_does_not_mind(hook: str) -> None:
    body = HOOKED.format(hook=hook)
    assert fixed(body) == body.replace("    loss.backward", "loss.backward")


@pytest.mark.parametrize(
    "hook", ["out.register_hook(metric)", "model.register_full_backward_hook(hook=lambda m, i, o: o[0].clamp(0))"]
)
def test_a_hook_that_may_compute_is_a_doubt(hook: str) -> None:
    assert "loss.backward()" in fixed(HOOKED.format(hook=hook), Applicability.UNSAFE)


@pytest.mark.parametrize("hook", ["out.register_hook(project)", "out.register_hook(lambda grad: grad @ y)"])
def test_a_hook_that_multiplies_matrices_keeps_the_region(hook: str) -> None:
    assert "may multiply tensors of two dtypes" in withheld(HOOKED.format(hook=hook))


def test_a_step_alone_minds_no_hook() -> None:
    text = indented(
        "opt = torch.optim.SGD(model.parameters(), lr=1)\nx.register_hook(lambda grad: grad @ y)\n"
        'with torch.autocast("cuda"):\n    z = model(x)\n    opt.step()\n'
    )
    (finding,) = check(text)
    assert finding.code == "AMP302"
    assert finding.fix is not None


def test_a_step_in_the_header_of_its_own_region_stays() -> None:
    text = 'with torch.autocast("cpu"), watched(optimizer.step()):\n    loss = model(x)\n'
    (finding,) = check(indented(text))
    assert (finding.code, finding.fix) == ("AMP302", None)
    assert "part of the `with` line" in (finding.withheld or "")


def test_a_step_that_may_need_the_region_makes_the_fix_unsafe() -> None:
    body = 'with torch.autocast("cpu"):\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n'
    findings = check(indented(body))
    assert [each.code for each in findings] == ["AMP301"]
    assert "(which also fixes AMP302 on line " in findings[0].message
    assert {each.fix.applicability for each in findings if each.fix} == {Applicability.UNSAFE}
    assert fix(indented(body)) == indented(body)


def test_what_only_looks_aside_leaves_with_its_with() -> None:
    body = (
        'with torch.autocast("cuda"):\n'
        "    loss = model(x)\n"
        "    loss.backward()\n"
        "    with warnings.catch_warnings():\n"
        '        warnings.simplefilter("ignore")\n'
        "        meter.append(loss.item())\n"
    )
    head = "import warnings\n"
    text = head + indented(body)
    assert "\n    with warnings.catch_warnings():\n" in fix(text)
    assert fix(text).count("torch.autocast") == 1
    kept = text.replace("warnings.catch_warnings()", "ctxs")  # it may be a region
    assert "\n        with ctxs:\n" in fix(kept)


@pytest.mark.parametrize("between", ["", "\n", "\n  \n"])
def test_blank_lines_stay_before_the_region_that_is_opened_again(between: str) -> None:
    region = 'with torch.autocast("cuda"):\n'
    before = f"{region}    loss = model(x)\n    loss.backward()\n{between}    # again\n    y = model(y)\n"
    after = f"{region}    loss = model(x)\nloss.backward()\n{between}{region}    # again\n    y = model(y)\n"
    assert fixed(before) == after
