"""Makes the files of a new rule, with prompts for what is to be written, and says what to do next.

python -m tests.new_rule AMP313 some-name
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from amplint.registry import all_rules
from amplint.registry.rule import DOC_HEADINGS, OURS
from tests import ROOT

# A prompt starts with this; a test asks that no rule is left with one (tests/registry/test_registry.py).
PROMPT = "TODO:"
_VARIANT, _SILENT = "loop", "right"

# What stands under each heading; the headings are those of `DOC_HEADINGS`.
_PROMPTS: Mapping[str, str] = {
    "What it does": "Finds ... Silent where ...",
    "Why is this bad?": "what torch does then, and what becomes of the training. Link a fact of docs/amp-facts.md.",
    "Fix safety": "Safe or unsafe, and what may change; or why there is no fix (docs/fix-safety.md).",
    "Proof": "what the fixtures show before the fix and after it; or the reason for shows=none.",
    "References": "links to PyTorch's documentation or to an issue.",
}
_CODE_PROMPTS: Mapping[str, str] = {
    "Example": "a few lines that are wrong",
    "Use instead": "the same lines, mended",
}

_MODULE = '''\
"""{prompt} what is wrong, in one sentence.

{sections}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Finding, Severity
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    # {prompt} the words without which a file can't have a finding. `a & b` needs both; of several, one is enough.
    triggers=("GradScaler & update(",),
    # {prompt} the kinds of fixes: Applicability.SAFE, Applicability.UNSAFE, both or none.
    fixes=(),
    # {prompt} or shown_by=("gradient", "update"): what `amplint verify` sees of it in a run of a user's own step.
    not_shown="{prompt} why no run of a step can show it",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """{prompt} each ..."""
    for call in module.whole.near("update").calls:
        if {condition}:
            yield rule.finding(module.span(call), "{prompt} what goes wrong here, and what to do")
'''
_CONDITION = 'module.text(call) == "{prompt} what makes it wrong"'

_PROGRAM = """\
import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(3):
        inputs, targets = torch.randn(16, 8), torch.randint(0, 2, (16,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
"""
_NEXT = """\
{files}

Next:
1. Write bad.py so that it shows the mistake, with `# expect: {code}` on each line that is to be reported. Its first
   line says what the fix is (safe, unsafe, hand) and what a run of it shows; `amplint/testing.py` has the words.
2. Write fixed.py as the fix is to make it, and in silent/ what is right and looks alike, one program for each reason.
3. Replace every {prompt} in the rule's module, and write its check and its fix.
4. Try it:              pytest tests/test_fixtures.py -k {code}
5. Accept what it says: pytest tests/test_fixtures.py -k "fixer_makes and {code}" --snapshot-update
6. Make what follows:   python -m tests.generate
7. Test the rest:       pytest tests/registry/test_registry.py tests/test_generated.py tests/guide/test_rule_pages.py
Nothing else has to be touched. CONTRIBUTING.md has more, and the line in CHANGELOG.md is yours to write.
"""


def family_of(code: str) -> Path:
    """The folder of the rules whose codes have the same hundred.

    Raises:
        ValueError: there are none.
    """
    for path in sorted((ROOT / "amplint" / "rules").glob(f"*/{code[:4].lower()}*.py")):
        return path.parent
    raise ValueError(f"no rule has a code like {code[:4]}xx: a new family needs a folder in amplint/rules first")


def files_of(code: str, name: str) -> dict[Path, str]:
    """The files of a new rule and their texts.

    Raises:
        ValueError: the code or the name can't be one, or is another rule's.
    """
    if not re.fullmatch(rf"{OURS}\d{{3}}", code):
        raise ValueError(f"{code!r} is no code, such as {OURS}313")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(f"{name!r} is no name, such as backward-in-autocast")
    for rule in all_rules().values():
        if code == rule.code or name == rule.name:
            raise ValueError(f"there is a rule {rule.code} {rule.name}")
    under = name.replace("-", "_")
    fixtures = ROOT / "fixtures" / f"{code}_{under}"
    marked = _PROGRAM.replace("update()\n", f"update()  # expect: {code}\n")
    return {
        family_of(code) / f"{code.lower()}_{under}.py": _module(),
        fixtures / _VARIANT / "bad.py": f"# amplint-fixture: fix=hand shows=none\n{marked}",
        fixtures / _VARIANT / "fixed.py": _PROGRAM,
        fixtures / "silent" / f"{_SILENT}.py": _PROGRAM,
    }


def _module() -> str:
    sections = []
    for heading in DOC_HEADINGS:
        code = _CODE_PROMPTS.get(heading)
        body = f"{PROMPT} {_PROMPTS[heading]}" if code is None else f"```python\n# {PROMPT} {code}\n```"
        sections.append(f"## {heading}\n{body}")
    condition = _CONDITION.format(prompt=PROMPT)
    return _MODULE.format(prompt=PROMPT, sections="\n\n".join(sections), condition=condition)


def main() -> None:
    """Make the files that the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.new_rule", description=__doc__.partition("\n")[0])
    parser.add_argument("code", help="an unused code, such as AMP313")
    parser.add_argument("name", help="its name, such as backward-in-autocast")
    options = parser.parse_args()
    try:
        files = files_of(options.code, options.name)
    except ValueError as error:
        parser.error(str(error))
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    made = "\n".join(f"made: {path.relative_to(ROOT).as_posix()}" for path in files)
    print(_NEXT.format(files=made, code=options.code, prompt=PROMPT), end="")


if __name__ == "__main__":
    main()
