from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import amplint
from amplint.api import check, fix
from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.config.settings import Settings
from amplint.engine import file as engine
from amplint.engine import prefilter, reading
from amplint.engine.file import ROUNDS, check_bytes, fix_bytes
from amplint.engine.result import FixResult
from amplint.model import Module
from amplint.registry import all_rules
from amplint.registry.rule import Rule
from amplint.suppression import suppressions

EVERYTHING = Settings(frozenset(all_rules()), isolated=True)
LEGACY = b"import torch\nscaler = torch.cuda.amp.GradScaler()\n"
MODERN = b'import torch\nscaler = torch.amp.GradScaler("cuda")\n'
Check = Callable[[Module], Iterable[Finding]]


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Settings]]:
    """Install rules AMP900, AMP901, ... with nothing beside them but the engine's own, and select them."""

    def install(*checks: Check, trial: bool = False, select: int | None = None) -> Settings:
        rules = {code: rule for code, rule in all_rules().items() if code < "AMP100"}
        for number, function in enumerate(checks):
            rule = Rule(
                f"rules.amp90{number}_fake",
                "Fake.",
                severity=Severity.ERROR,
                triggers=("mark", "one & other"),
                trial=trial,
            )
            rule.check(function)
            rules[rule.code] = rule
        for module in (reading, engine, prefilter, suppressions):
            monkeypatch.setattr(module, "all_rules", lambda: rules)
        forget()
        chosen = [code for code in rules if select is None or code <= f"AMP90{select}"]
        return Settings(frozenset(chosen), isolated=True)

    def forget() -> None:
        """What the gate has made for a selection is of the rules that there were."""
        prefilter.opening.cache_clear()
        prefilter._search.cache_clear()

    yield install
    forget()


def word(word: str, code: str = "AMP900", *, replacement: str | None = None, unsafe: bool = False) -> Check:
    """A rule that finds a word, and may replace it."""

    def check(module: Module) -> Iterable[Finding]:
        at = module.source.text.find(word)
        while at >= 0:
            change = None
            if replacement is not None:
                how = Applicability.UNSAFE if unsafe else Applicability.SAFE
                change = Fix(how, "Replace", (Edit(at, at + len(word), replacement),))
            yield Finding(at, at + len(word), code, "fake", Severity.ERROR, f"Found {word}", change)
            at = module.source.text.find(word, at + 1)

    return check


def codes(data: bytes, settings: Settings) -> list[str]:
    return [each.code for each in check_bytes(data, "file.py", settings).findings]


# The gate.


def test_a_file_without_trigger_words_is_not_decoded() -> None:
    assert check_bytes(b"import torch\nx = (\n", "file.py", EVERYTHING).source is None


def test_a_trigger_needs_all_its_words(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("one"))
    assert check_bytes(b"one", "file.py", settings).source is None
    assert check_bytes(b"other", "file.py", settings).source is None
    assert codes(b"one, other", settings) == ["AMP900"]
    assert codes(b"mark, one", settings) == ["AMP900"]


def test_a_rule_that_nothing_triggers_does_not_run(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("x"), word("x", "AMP901"))
    all_rules_now = engine.all_rules()
    all_rules_now["AMP901"].triggers = ((b"absent",),)
    assert codes(b"mark = x", settings) == ["AMP900"]


def test_a_rule_that_is_not_selected_does_not_open_the_gate(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("mark"))._replace(codes=frozenset({"AMP000", "AMP001", "AMP002"}))
    assert check_bytes(b"mark = (", "file.py", settings).source is None


@pytest.mark.parametrize(
    "statement", ["check_bytes(b'x = 1', 'f', s)", "check_bytes(b'x = 1  # noqa: AMP101', 'f', s)"]
)
def test_where_there_is_no_amp_libcst_is_not_imported(statement: str) -> None:
    code = (
        "import sys\n"
        "from amplint.engine.file import check_bytes\n"
        "from amplint.registry import all_rules\n"
        "from amplint.config.settings import Settings\n"
        f"s = Settings(frozenset(all_rules()), isolated=True)\n{statement}\n"
        "print([name for name in ('libcst', 'torch', 'rich', 'pathspec', 'packaging') if name in sys.modules])\n"
    )
    root = Path(amplint.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# Findings.


def test_findings_come_in_the_order_of_the_text(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("two"), word("one", "AMP901"), word("one", "AMP902"))
    assert codes(b"mark; one; two; one", settings) == ["AMP901", "AMP902", "AMP900", "AMP901", "AMP902"]


def test_findings_of_codes_that_are_not_selected_are_dropped(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("mark", "AMP901"), word("mark", "AMP900"), select=0)
    assert codes(b"mark", settings) == []


def test_comments_count_only_where_the_host_does_not_see_to_them() -> None:
    data = b"import torch\nx = torch.cuda.amp.GradScaler()  # noqa: AMP102\ny = 1  # noqa: AMP102\n"
    assert codes(data, EVERYTHING) == ["AMP002"]
    # Whether they are needed is ours to tell all the same.
    without = check_bytes(data, "file.py", EVERYTHING, noqa=False)
    assert [each.code for each in without.findings] == ["AMP102", "AMP002"]


def test_comments_in_our_own_form_count_for_every_host() -> None:
    line = b"import torch\nx = torch.cuda.amp.GradScaler()"
    for data, expected in (
        (line + b"  # amplint: ignore[AMP102] for now\n", []),
        (line + b"  # amplint: ignore[AMP101]\n", ["AMP102", "AMP002"]),
        (b"# amplint: ignore-file\n" + line, []),
        (b"# amplint: ignore-file[AMP102]\n" + line, []),
    ):
        found = check_bytes(data, "file.py", EVERYTHING, noqa=False).findings
        assert [each.code for each in found] == expected, data


def test_the_public_functions_need_only_a_text() -> None:
    (finding,) = check(LEGACY.decode())
    assert (finding.code, LEGACY[finding.start : finding.end]) == ("AMP102", b"torch.cuda.amp.GradScaler")
    assert fix(LEGACY.decode()) == MODERN.decode()
    assert check(MODERN.decode()) == []
    assert fix(MODERN.decode()) == MODERN.decode()
    assert amplint.check is check
    assert amplint.fix is fix


def test_a_text_is_decoded_already_whatever_its_cookie_says() -> None:
    text = f"# coding: latin-1\nx = 'é€'\n{LEGACY.decode()}"
    (finding,) = check(text)
    assert text[finding.start : finding.end] == "torch.cuda.amp.GradScaler"
    assert fix(text) == f"# coding: latin-1\nx = 'é€'\n{MODERN.decode()}"


def test_a_text_keeps_its_byte_order_mark() -> None:
    assert fix("\ufeff" + LEGACY.decode()) == "\ufeff" + MODERN.decode()
    assert [each.start for each in check("\ufeff" + LEGACY.decode())] == [each.start for each in check(LEGACY.decode())]


def test_settings_hold_for_the_public_functions() -> None:
    some = Settings(frozenset({"AMP101"}), isolated=True)
    assert check(LEGACY.decode(), settings=some) == []
    assert fix(LEGACY.decode(), settings=some) == LEGACY.decode()


# Failures.


def broken(module: Module) -> Iterable[Finding]:
    raise KeyError("scaler\nand more")


def outside(module: Module) -> Iterable[Finding]:
    yield Finding(0, 1000, "AMP900", "fake", Severity.ERROR, "Too far")


def test_a_rule_that_fails_is_reported_and_the_others_go_on(fakes: Callable[..., Settings]) -> None:
    settings = fakes(broken, word("mark", "AMP901"))
    first, second = check_bytes(b"mark\n", "file.py", settings).findings
    assert (first.code, second.code) == ("AMP000", "AMP901")
    assert first.message.startswith("AMP900 failed with KeyError at engine/analysis.py:")
    assert "\n" not in first.message
    assert "report it" in first.message
    assert (first.start, first.end) == (0, 4)


def test_a_rule_that_fails_half_way_says_nothing(fakes: Callable[..., Settings]) -> None:
    def half(module: Module) -> Iterable[Finding]:
        yield Finding(0, 1, "AMP900", "fake", Severity.ERROR, "First")
        raise RecursionError

    assert codes(b"mark\n", fakes(half)) == ["AMP000"]


def test_a_finding_outside_of_the_file_is_its_rule_s_failure(fakes: Callable[..., Settings]) -> None:
    (finding,) = check_bytes(b"mark\n", "file.py", fakes(outside)).findings
    assert finding.message.startswith("AMP900 failed with ValueError")


def test_a_failure_can_not_be_deselected_or_silenced(fakes: Callable[..., Settings]) -> None:
    settings = fakes(broken)._replace(codes=frozenset({"AMP900"}))
    assert codes(b"mark  # noqa\n# amplint: ignore-file[AMP000]\n", settings) == ["AMP000"]


def test_a_failure_to_read_the_file_is_reported(
    fakes: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*given: object) -> Module:
        raise IndexError("list index out of range")

    monkeypatch.setattr("amplint.model.build", build)
    (finding,) = check_bytes(b"mark\n", "file.py", fakes(word("mark"))).findings
    assert finding.code == "AMP000"
    assert finding.message.startswith("the model failed with IndexError at engine/reading.py:")


def test_what_only_libcst_refuses_is_said_to_be_our_lack(
    fakes: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    from amplint.model import CannotRead

    def build(*given: object) -> Module:
        raise CannotRead("unknown syntax", 2)

    monkeypatch.setattr("amplint.model.build", build)
    result = check_bytes(b"mark\nhere\n", "file.py", fakes(word("mark")))
    (finding,) = result.findings
    assert (finding.code, finding.message) == ("AMP001", "amplint can't read this code yet: unknown syntax")
    assert result.source is not None
    assert result.source.text[finding.start : finding.end] == "here"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_who_stops_the_program_is_obeyed(fakes: Callable[..., Settings], error: type[BaseException]) -> None:
    def stop(module: Module) -> Iterable[Finding]:
        raise error

    with pytest.raises(error):
        codes(b"mark\n", fakes(stop))


# Trials.


def test_a_fix_that_causes_something_else_is_withheld(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("bad", replacement="worse"), word("worse", "AMP901"), trial=True)
    (finding,) = check_bytes(b"mark = bad\n", "file.py", settings).findings
    assert finding.fix is None
    assert finding.withheld == "the fixed code would be reported as AMP901"
    assert fix_bytes(b"mark = bad\n", "file.py", settings, unsafe=True).data == b"mark = bad\n"


def test_rules_that_are_not_selected_have_a_say_in_trials(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("bad", replacement="worse"), word("worse", "AMP901"), trial=True, select=0)
    (finding,) = check_bytes(b"mark = bad\n", "file.py", settings).findings
    assert finding.fix is None
    # What they had to say before is not held against the fix.
    settings = fakes(word("bad", replacement="good"), word("mark", "AMP901"), trial=True, select=0)
    (finding,) = check_bytes(b"mark = bad\n", "file.py", settings).findings
    assert finding.fix is not None


def test_what_a_comment_silences_counts_in_trials(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("bad", replacement="good"), trial=True)
    result = check_bytes(b"mark = bad\nx = bad  # noqa: AMP900\n", "file.py", settings)
    (finding,) = result.findings
    assert finding.fix is not None


def test_a_fix_is_not_withheld_for_what_another_rule_fixes_beside_it(fakes: Callable[..., Settings]) -> None:
    settings = fakes(
        word("bad", replacement="worse", unsafe=True), word("worse", "AMP901", replacement="good"), trial=True
    )
    text = b"mark = worse\nmark = bad\n"
    assert [each.withheld for each in check_bytes(text, "file.py", settings).findings] == [None, None]
    assert fix_bytes(text, "file.py", settings, unsafe=True).data == b"mark = good\nmark = good\n"


def test_what_is_deprecated_has_a_say_in_trials_only_where_it_is_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    # A fix that writes an old name.
    old = word('autocast("cuda")', "AMP305", replacement="cuda.amp.autocast()")
    monkeypatch.setitem(all_rules()["AMP305"].__dict__, "run", old)
    text = b'import torch\nwith torch.autocast("cuda"):\n    x = y and z\n'
    for others in (set(), {"AMP102"}):
        settings = Settings(frozenset({"AMP305", *others}), isolated=True)
        assert b"torch.cuda.amp.autocast()" in fix_bytes(text, "file.py", settings).data
    # Then both are fixed at once.
    (found,) = check_bytes(text, "file.py", Settings(frozenset({"AMP305", "AMP101"}), isolated=True)).findings
    assert found.withheld is None
    assert found.fix is not None
    assert found.fix.message.startswith("Replace; then: ")


def test_a_fix_that_breaks_the_program_is_withheld(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("bad", replacement="("), trial=True)
    (finding,) = check_bytes(b"mark = bad\n", "file.py", settings).findings
    assert finding.withheld == "the fixed code could not be parsed"


def test_a_trial_in_which_a_rule_fails_is_failed(fakes: Callable[..., Settings]) -> None:
    def fails_on_good(module: Module) -> Iterable[Finding]:
        if "good" in module.source.text:
            raise ValueError
        return ()

    settings = fakes(word("bad", replacement="good"), fails_on_good, trial=True)
    (finding,) = check_bytes(b"mark = bad\n", "file.py", settings).findings
    assert finding.withheld == "the fixed code would be reported as AMP000 (internal-error)"


def test_a_rule_without_trial_is_taken_at_its_word(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("bad", replacement="worse"), word("worse", "AMP901"))
    assert fix_bytes(b"mark = bad\n", "file.py", settings, unsafe=False).data == b"mark = worse\n"


# Fixing.


def counted(fixed: FixResult) -> dict[str, int]:
    """How many findings of each code were fixed."""
    return {kind.code: times for kind, times in fixed.applied.items()}


def test_fixes_are_made_and_counted() -> None:
    fixed = fix_bytes(LEGACY, "file.py", EVERYTHING, unsafe=False)
    assert (fixed.data, counted(fixed), fixed.result.findings) == (MODERN, {"AMP102": 1}, ())
    again = fix_bytes(fixed.data, "file.py", EVERYTHING, unsafe=False)
    assert (again.data, counted(again)) == (MODERN, {})


def test_unsafe_fixes_are_made_on_request(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("bad", replacement="good", unsafe=True))
    assert fix_bytes(b"mark = bad\n", "file.py", settings, unsafe=False).data == b"mark = bad\n"
    assert fix_bytes(b"mark = bad\n", "file.py", settings, unsafe=True).data == b"mark = good\n"


def test_fixes_go_on_until_nothing_is_left(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("a1", replacement="a2"), word("a2", "AMP901", replacement="a3"), word("a3", "AMP902"))
    fixed = fix_bytes(b"mark = a1\n", "file.py", settings, unsafe=False)
    assert (fixed.data, counted(fixed)) == (b"mark = a3\n", {"AMP900": 1, "AMP901": 1})
    assert [each.code for each in fixed.result.findings] == ["AMP902"]


def test_fixes_that_get_in_each_other_s_way_take_turns(fakes: Callable[..., Settings]) -> None:
    settings = fakes(
        word("ab", replacement="xb"), word("xb", "AMP901", replacement="y"), word("b", "AMP902", replacement="c")
    )
    assert fix_bytes(b"mark = ab\n", "file.py", settings, unsafe=False).data == b"mark = y\n"


def test_rules_that_undo_each_other_come_to_an_end(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("a1", replacement="a2"), word("a2", "AMP901", replacement="a1"))
    fixed = fix_bytes(b"mark = a1\n", "file.py", settings, unsafe=False)
    assert fixed.data == b"mark = a1\n"
    (failure, _) = fixed.result.findings
    assert failure.code == "AMP000"
    assert f"after {ROUNDS} rounds" in failure.message


def test_a_fix_that_breaks_the_program_is_not_made_and_the_others_are(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("bad", replacement="good"), word("evil", "AMP901", replacement="("))
    fixed = fix_bytes(b"mark = bad\nmark = evil\nmark = bad\n", "file.py", settings, unsafe=False)
    assert (fixed.data, counted(fixed)) == (b"mark = good\nmark = evil\nmark = good\n", {"AMP900": 2})
    failure, left = fixed.result.findings
    assert (failure.code, left.code, left.fix) == ("AMP000", "AMP901", None)
    assert failure.message.startswith("the fix of AMP901 failed with ValueError: '(' was never closed")
    assert left.withheld == "the fixed code could not be parsed"


def test_fixes_that_only_together_break_the_program_are_made_one_at_a_time(fakes: Callable[..., Settings]) -> None:
    settings = fakes(word("a, a", replacement="*a"), word("b, b", "AMP901", replacement="*b"))
    fixed = fix_bytes(b"mark, a, a = mark, b, b = c\n", "file.py", settings, unsafe=False)
    assert fixed.data == b"mark, *a = mark, *b = c\n"
    # Python takes one starred target only.
    settings = fakes(word("a1", replacement="*a"), word("b1", "AMP901", replacement="*b"))
    fixed = fix_bytes(b"mark, a1, b1 = c\n", "file.py", settings, unsafe=False)
    assert fixed.data in (b"mark, *a, b1 = c\n", b"mark, *a, *b = c\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LEGACY.replace(b"\n", b"\r\n"), MODERN.replace(b"\n", b"\r\n")),
        (LEGACY.replace(b"\n", b"\r"), MODERN.replace(b"\n", b"\r")),
        (b"\xef\xbb\xbf" + LEGACY, b"\xef\xbb\xbf" + MODERN),
        (b"# coding: latin-1\n# \xe9\n" + LEGACY, b"# coding: latin-1\n# \xe9\n" + MODERN),
        (b"# coding: euc-jp\n# \xc6\xfc\xcb\xdc\n" + LEGACY, b"# coding: euc-jp\n# \xc6\xfc\xcb\xdc\n" + MODERN),
        (b"x = '\xc3\xa9\xe2\x80\xa8'\n" + LEGACY, b"x = '\xc3\xa9\xe2\x80\xa8'\n" + MODERN),
        (LEGACY.rstrip(), MODERN.rstrip()),
        (b"\x0c\n" + LEGACY + b"\x0c", b"\x0c\n" + MODERN + b"\x0c"),
    ],
)
def test_what_is_not_fixed_keeps_its_bytes(before: bytes, after: bytes) -> None:
    assert fix_bytes(before, "file.py", EVERYTHING, unsafe=False).data == after


def test_a_text_that_can_t_be_written_back_is_not_fixed() -> None:
    data = b"# coding: utf-7\nx = '+AOk-+AOk-'\n" + LEGACY
    fixed = fix_bytes(data, "file.py", EVERYTHING, unsafe=False)
    assert fixed.data == data
    (finding,) = fixed.result.findings
    assert (finding.fix, finding.withheld) == (None, "the file's utf-7 text can't be written back unchanged")
