"""Where a region is open: every way to open, close and switch one, seen through AMP301."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check

HEAD = "import torch\nfrom contextlib import ExitStack, nullcontext\n\n\n"


def lines(body: str) -> list[str]:
    text = HEAD + body
    found = [each.start for each in check(text) if each.code == "AMP301"]
    return [text[each : text.index("\n", each)] for each in found]


def function(body: str, decorators: str = "", kind: str = "def") -> str:
    return f"{decorators}{kind} f(model, x, flag, region):\n" + "".join(f"    {line}\n" for line in body.splitlines())


AUTOCAST = 'torch.autocast("cuda")'
OPEN = {
    "with": function(f"with {AUTOCAST}:\n    x.backward()"),
    "with a flag": function('with torch.autocast("cuda", enabled=flag):\n    x.backward()'),
    "in the arm that has it on": function(
        f"with {AUTOCAST} if flag else nullcontext():\n    if flag:\n        x.backward()"
    ),
    "kept in a variable": function(f"c = {AUTOCAST}\nwith c:\n    x.backward()"),
    "by hand": function(f"c = {AUTOCAST}\nc.__enter__()\nx.backward()"),
    "on a stack": function(f"with ExitStack() as stack:\n    stack.enter_context({AUTOCAST})\n    x.backward()"),
    "decorator": function("x.backward()", f"@{AUTOCAST}\n"),
    "behind an island": function(
        f'with {AUTOCAST}:\n    with torch.autocast("cuda", enabled=False):\n        model(x)\n    x.backward()'
    ),
    "of one path": function(f"c = {AUTOCAST}\nif flag:\n    c.__enter__()\nwith model:\n    pass\nx.backward()"),
    "module": f"loss = 1\nwith {AUTOCAST}:\n    loss.backward()\n",
    "async": function(f"with {AUTOCAST}:\n    await x\n    x.backward()", kind="async def"),
}


@pytest.mark.parametrize("body", OPEN.values(), ids=OPEN)
def test_open(body: str) -> None:
    assert len(lines(body)) == 1


CLOSED = {
    "island": function(f'with {AUTOCAST}:\n    with torch.autocast("cuda", enabled=False):\n        x.backward()'),
    "behind": function(f"with {AUTOCAST}:\n    loss = model(x)\nloss.backward()"),
    "off by a literal": function('with torch.autocast("cuda", enabled=False):\n    x.backward()'),
    "off by a constant": "AMP = False\n\n\n" + function('with torch.autocast("cuda", enabled=AMP):\n    x.backward()'),
    "in the arm that has it off": function(
        'with torch.autocast("cuda", enabled=flag):\n    if not flag:\n        x.backward()'
    ),
    "a flag that changes inside": function(
        'with torch.autocast("cuda", enabled=flag):\n    flag = not flag\n    if flag:\n        x.backward()'
    ),
    "closed by hand": function(f"c = {AUTOCAST}\nc.__enter__()\nmodel(x)\nc.__exit__(None, None, None)\nx.backward()"),
    "closed in the last suite": function(
        f"for y in x:\n    c = {AUTOCAST}\n    c.__enter__()\n    try:\n        if flag:\n            continue\n"
        "    finally:\n        c.__exit__(None, None, None)\n    y.backward()"
    ),
    "closed on the path that opened it": function(
        f"c = {AUTOCAST}\nif flag:\n    c.__enter__()\nwith model:\n    pass\n"
        "if flag:\n    c.__exit__(None, None, None)\nx.backward()"
    ),
    "closed with its stack": function(
        f"stack = ExitStack()\nstack.enter_context({AUTOCAST})\nmodel(x)\nstack.close()\nx.backward()"
    ),
    "stack left": function(f"with ExitStack() as stack:\n    stack.enter_context({AUTOCAST})\nx.backward()"),
    "switched off by the state": function(
        f'with {AUTOCAST}:\n    torch.set_autocast_enabled("cuda", False)\n    x.backward()'
    ),
    "switched off by a helper": function(f"with {AUTOCAST}:\n    with disable_autocast():\n        x.backward()"),
    "decorator of a generator": function("yield model(x)\nx.backward()", f"@{AUTOCAST}\n"),
    "decorator of a coroutine": function("x.backward()", f"@{AUTOCAST}\n", "async def"),
    "a region that came as an argument": function("with region:\n    x.backward()"),
    "a framework's backward": function(f"with {AUTOCAST}:\n    accelerator.backward(x)"),
    "a wrapper's backward": function(f"with {AUTOCAST}:\n    loss = model(x)\n    wrapper.backward(loss)"),
    "in a nested function": function(f"with {AUTOCAST}:\n    def later():\n        x.backward()\nlater()"),
}


@pytest.mark.parametrize("body", CLOSED.values(), ids=CLOSED)
def test_closed(body: str) -> None:
    compile(HEAD + body, "program", "exec")
    assert lines(body) == []


MANAGER = "from contextlib import contextmanager\n\n\n@contextmanager\n"
# Functions of the program's own that hand on to autocast what they are given, and a call of each.
WRAPPERS = {
    "keywords": (
        'def opened(device_type="cuda", **kwargs):\n    return torch.amp.autocast(device_type=device_type, **kwargs)\n',
        "opened(enabled=flag)",
    ),
    "positions": (
        "def opened(*args, **kwargs):\n    return torch.autocast(*args, **kwargs)\n",
        'opened("cuda", torch.float16, flag)',
    ),
    "positions and a keyword": (
        "def opened(*args, **kwargs):\n    return torch.autocast(*args, **kwargs)\n",
        'opened("cuda", enabled=flag)',
    ),
    "a context manager": (
        MANAGER + 'def opened(**kwargs):\n    with torch.autocast("cuda", **kwargs):\n        yield\n',
        'opened(**{"enabled": flag})',
    ),
    "one for each release": (
        MANAGER + 'def opened(device_type="cuda", **kwargs):\n    if torch.__version__ >= "2.3":\n'
        "        with torch.amp.autocast(device_type=device_type, **kwargs):\n            yield\n"
        "    else:\n        with torch.cuda.amp.autocast(**kwargs):\n            yield\n",
        "opened(enabled=flag)",
    ),
    "a switch next to other options": (
        "def opened(enabled, **kwargs):\n    options = dict(dtype=torch.float16, **kwargs)\n"
        '    return torch.autocast("cuda", enabled=enabled, **options)\n',
        "opened(flag)",
    ),
}


@pytest.mark.parametrize(("wrapper", "call"), WRAPPERS.values(), ids=WRAPPERS)
def test_what_a_wrapper_hands_on(wrapper: str, call: str) -> None:
    for given, expected in ("False", 0), ("True", 1):
        used = "\n\n" + function(f"with {call.replace('flag', given)}:\n    x.backward()")
        assert len(lines(wrapper + used)) == expected, given


def test_a_wrapper_of_another_file(tmp_path: Path) -> None:
    wrapper, _ = WRAPPERS["one for each release"]
    (tmp_path / "own.py").write_text("import torch\n" + wrapper.replace("opened", "autocast_for"))
    for given, expected in ("False", 0), ("True", 1):
        program = tmp_path / "program.py"
        program.write_text(
            "from own import autocast_for\n\n\n" + function(f"with autocast_for(enabled={given}):\n    x.backward()")
        )
        assert [each.code for each in check(program.read_text(), program)] == ["AMP301"] * expected
