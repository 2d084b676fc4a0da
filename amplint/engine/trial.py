"""Whether fixes do what they are for: each is applied to the text, and the new text is analysed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

from amplint.base.edits import apply, composed, origins
from amplint.base.findings import Applicability, Edit, Finding, Fix, withhold
from amplint.registry import all_rules

# Trials of one file's fixes. They are few where fixes are good: all of them are tried together first.
TRIALS = 40
# Fixes that one fix can need to do its work: each removes what the one before it brings to light.
CHAINED = 4
_DISPLAY = Applicability.DISPLAY

_Edits: TypeAlias = tuple[Edit, ...]
_Change: TypeAlias = tuple[tuple[str, str], ...]  # what is replaced, by what


def counted_as(finding: Finding) -> str:
    """What a finding counts as: its code, which a suspicion has with a question mark."""
    return f"{finding.code}?" if finding.is_suspicion else finding.code


def try_out(
    text: str,
    findings: list[Finding],
    before: Counter[str],
    analyse: Callable[[str], Counter[str]],
    look: Callable[[str], list[Finding]] | None = None,
) -> list[Finding]:
    """The findings, without the fixes that don't do what they are for.

    A fix is kept if, applied to `text`, it takes away what it belongs to and adds nothing; a suspicion of another rule
    is nothing. `before` counts what is found in `text` by all rules (`counted_as`), and what they doubt, in a sentence;
    `analyse` counts those of another text. What a fix brings to light can have a fix of its own, which `look` gives
    with what is found in a text: where in the end nothing of it is left, they become one.
    """
    trial = _Trial(text, findings, before, analyse, look)
    trial.run()
    found = [each._replace(fix=trial.chains.get(each.fix.edits, each.fix)) if each.fix else each for each in findings]
    return withhold(found, trial.reasons)


class _Trial:
    def __init__(
        self,
        text: str,
        findings: list[Finding],
        before: Counter[str],
        analyse: Callable[[str], Counter[str]],
        look: Callable[[str], list[Finding]] | None,
    ) -> None:
        self.text = text
        self.look = look
        self.before = before
        self.analyse = analyse
        self.left = TRIALS
        self.sharing: dict[_Edits, list[Finding]] = {}
        for finding in findings:
            if finding.fix and finding.fix.edits:
                self.sharing.setdefault(finding.fix.edits, []).append(finding)
        # Why fixes are withheld.
        self.reasons: dict[_Edits, str] = {}
        # What fixes make doubtful that are made together.
        self.doubtful: list[tuple[str, list[Fix]]] = []
        # What fixes become that need others.
        self.chains: dict[_Edits, Fix] = {}

    def run(self) -> None:
        """Try all fixes together; where that goes wrong, ever smaller groups, down to each alone.

        Fixes that make the same change at several places mostly work or fail alike. Of those that fail together one is
        tried alone, and if it fails the others wait until the end: trials go first to where there is hope.
        """
        hopeful, doubtful = deque(self._groups()), deque[list[Fix]]()
        seen: set[_Change] = set()
        while queue := hopeful or doubtful:
            group = queue.popleft()
            if self._settled(group):
                continue
            changes = [self._change(fix) for fix in group]
            if changes[0] != changes[-1]:
                # Between two kinds, as near to the middle as can be.
                borders = [i for i in range(1, len(group)) if changes[i] != changes[i - 1]]
                at = min(borders, key=lambda i: abs(2 * i - len(group)))
                queue += (group[:at], group[at:])
            elif changes[0] in seen:
                queue += (group[: len(group) // 2], group[len(group) // 2 :])
            else:
                seen.add(changes[0])
                self._settled(group[:1])
                (doubtful if group[0].edits in self.reasons else queue).append(group[1:])
        self._withhold_doubtful()

    def _withhold_doubtful(self) -> None:
        """What each fix does well may go wrong where all are made, and nothing would be found then."""
        for doubt, group in reversed(self.doubtful):
            if not any(fix.edits in self.reasons for fix in group):
                unsafe = [fix for fix in group if fix.applicability is not Applicability.SAFE]
                self.reasons.update((fix.edits, doubt) for fix in unsafe or group)

    def _groups(self) -> list[list[Fix]]:
        """The fixes in groups that can be applied together, those that make the same change side by side."""
        fixes = [each[0].fix for each in self.sharing.values() if each[0].fix]
        order: dict[_Change, int] = {}
        for fix in fixes:
            order.setdefault(self._change(fix), len(order))
        groups = []
        while fixes:
            _, group = apply(self.text, fixes)
            groups.append(sorted(group, key=lambda fix: order[self._change(fix)]))
            taken = set(group)
            fixes = [fix for fix in fixes if fix not in taken]
        return groups

    def _change(self, fix: Fix) -> _Change:
        return tuple((self.text[edit.start : edit.end], edit.content) for edit in fix.edits)

    def _settled(self, group: list[Fix]) -> bool:
        """Try a group; False where it has to be divided, because not all of its fixes do their work."""
        if self.left == 0:
            why = f"not tried: too many fixes in this file fail (the limit is {TRIALS} trials)"
            self.reasons.update((fix.edits, why) for fix in group)
            return True
        self.left -= 1
        expected = Counter(self.before)
        own = {each.code for fix in group for each in self.sharing[fix.edits]}
        expected.subtract(counted_as(each) for fix in group for each in self.sharing[fix.edits])
        after = self.analyse(apply(self.text, group)[0])
        wrong = _more(after, expected, own)
        if wrong and len(group) > 1:
            self.doubtful += [(each, group) for each in wrong if _is_doubt(each)]
            return False
        if wrong:
            chain, after = self._chain(group[0], expected, after, own)
            if chain is not None:
                self.chains[group[0].edits] = chain
                return True
            wrong = _more(after, expected, own)
            self.reasons[group[0].edits] = _reason(wrong, own, self.before, after)
        return True

    def _chain(
        self, first: Fix, expected: Counter[str], after: Counter[str], own: set[str]
    ) -> tuple[Fix | None, Counter[str]]:
        """A fix and those of what it brings to light, as one, if nothing of it is left; and the codes found in the end.

        `after`: those found once the first is made; `own`: the codes of what it belongs to.
        """
        fixes, text = [first], apply(self.text, [first])[0]
        while self.look is not None and self.left and len(fixes) <= CHAINED:
            self.left -= 1
            found = self.look(text)
            over = _more(Counter(map(counted_as, found)), expected, own)
            if not over:
                break
            new = (each.fix for each in self._new(found, fixes) if counted_as(each) in over)
            then = next((fix for fix in new if fix and fix.edits and fix.applicability is not _DISPLAY), None)
            if then is None:
                break
            fixes.append(then)
            text, _ = apply(text, [then])
        if len(fixes) == 1:
            return None, after
        after = self.analyse(text)
        return (None if _more(after, expected, own) else _as_one(fixes, composed(self.text, _steps(fixes)))), after

    def _new(self, found: list[Finding], fixes: list[Fix]) -> list[Finding]:
        """Of what is found once some fixes are made, what doesn't stand where it was found before."""
        own = {(each.code, each.start) for each in self.sharing[fixes[0].edits]}
        old = {(each.code, each.start) for each in self._known} - own
        places = origins(len(self.text), _steps(fixes))
        return [each for each in found if each.start >= len(places) or (each.code, places[each.start]) not in old]

    @cached_property
    def _known(self) -> list[Finding]:
        return self.look(self.text) if self.look is not None else []


def _more(after: Counter[str], expected: Counter[str], own: set[str]) -> list[str]:
    """What is found more often than expected, but for suspicions of rules other than the fix's `own`."""
    more = (found for found, count in after.items() if count > expected[found])
    return sorted(each for each in more if not each.endswith("?") or each.rstrip("?") in own)


def _steps(fixes: list[Fix]) -> list[tuple[Edit, ...]]:
    return [each.edits for each in fixes]


def _as_one(fixes: list[Fix], edits: tuple[Edit, ...]) -> Fix | None:
    """Fixes that are made one after the other as one, as doubtful as the most doubtful of them."""
    if not edits:
        return None
    safe = all(each.applicability is Applicability.SAFE for each in fixes)
    kind = Applicability.SAFE if safe else Applicability.UNSAFE
    return Fix(kind, "; then: ".join(dict.fromkeys(each.message for each in fixes)), edits)


def _is_doubt(found: str) -> bool:
    """Whether what counts is a sentence, and no code."""
    return " " in found


def _named(code: str) -> str:
    """A code with the name of its rule, if it has one."""
    rule = all_rules().get(code)
    return f"{code} ({rule.name})" if rule is not None else code


def _reason(wrong: list[str], own: set[str], before: Counter[str], after: Counter[str]) -> str:
    if after["AMP001"]:
        return "the fixed code could not be parsed"
    caused = [code for code in wrong if after[code] > before[code]]
    doubts = list(filter(_is_doubt, caused))
    if doubts:
        return doubts[0]
    if caused:
        return f"the fixed code would be reported as {', '.join(_named(each.rstrip('?')) for each in caused)}"
    return f"the fixed code would still be reported as {', '.join(sorted(own))}"
