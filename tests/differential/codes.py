"""From what is observed to what has to be found: the code and the line, with the ties named.

Each kind of observation allows one or more findings. The line is one of those that the observation tells: `at`, of the
call that was watched; `backward`, of the backward whose gradients it met; `unscaled`, of the call that divided them
before; `stepped`, of the step that used them; `update`, of the updates in between.

An observation is secondary behind another one of the same gradients, up to where they are None again, and behind an
exception: it may be found, and need not be. All others have to be, those too that show for one value of a flag only,
whatever the flag's name. A finding on a line that no run has reached is not judged, nor one on a line that is reached
only behind an exception. What shows where the loader has one batch only, or where all overflow, may be found, and need
not be.

Ties, and why:
- A scale that does not exist: nothing was scaled before (418), or the backward before it was forgotten (403), also
  where its gradients are cleared since.
- Gradients that are clipped behind an `unscale_` that came before their backward: 407, at the `unscale_`, is enough.
- What the next iteration raises because `update()` is missing: 404, at the step it should follow or where it raises;
  at `unscale_`, with no step since, it may as well be one `unscale_` too many (405), or one on a micro step (411).
- The same, where the optimizer has stepped directly: the step that is missing, and its update, are 402's.
- An update owed to a step that an update came too early for: it is there, and misplaced (410).
- Gradients divided a second time, an update in between: that update is misplaced (410), or the second `unscale_` (405);
  behind a direct step `unscale_` comes too late (406).
- Gradients used by a step and given to the scaler's step again: the update in between let it pass (410), the step is
  one too many (406). Given to `unscale_` again: that comes too late (406), or the update before it too early (410).
- `unscale_` between two backwards, then a direct step: both are wrong (411, 402).
- Only scaled gradients, in an optimizer that was unscaled: `unscale_` came before their backward (411), or behind the
  step before (406).
- Nothing to check: at the step that raises, or at the `unscale_` that found nothing (407). Where gradients are cleared
  after `unscale_`, nothing raises; under a condition that skips the step on purpose: it may be found, and need not.
- `unscale_` behind the step and the clear: it comes too late (406), and finds nothing (407).
- An update in the arm of the micro steps: where each step is at a boundary, the next one raises for the want of it. It
  is there, and misplaced (410).
- A clip between two steps: it is right if the first one goes (406), and comes too late if the second one does (419).
- A clip behind the step that finds gradients cleared does nothing either way: it may be found (419), and need not.
- A direct step of unscaled gradients is wrong where it takes infinite ones, which the scaler would have skipped: such
  programs are run with a batch that overflows. Where the norm is asked first, the program checks by itself. Where a
  clip of scaled ones has made them finite, it may be found, and need not.
- A plain backward on top of unscaled gradients, and the sum divided again: any of the reasons.
- Scaled gradients added to unscaled ones and clipped: 411 alone. The clip stands where it should, `unscale_` does not.
- Scaled gradients added to those of an earlier step and clipped: the clip comes behind the step (419), or before
  `unscale_` (401), or nothing is ever cleared (411).
"""

from __future__ import annotations

from typing import NamedTuple

TABLE: dict[str, tuple[tuple[str, str], ...]] = {
    "backward in a region": (("AMP301", "at"),),
    "step in a region": (("AMP302", "at"),),
    "scaled gradients clipped": (("AMP401", "at"),),
    "a sum of used and scaled clipped": (("AMP401", "at"), ("AMP419", "at"), ("AMP411", "unscaled")),
    "used gradients clipped": (("AMP419", "at"),),
    "cleared gradients clipped behind the step": (("AMP419", "at"),),
    "scaled gradients stepped directly": (("AMP402", "at"),),
    "unscaled gradients stepped directly": (("AMP402", "at"),),
    "used gradients stepped directly": (("AMP402", "at"),),
    "a sum of unscaled and scaled stepped directly": (("AMP411", "unscaled"), ("AMP402", "at")),
    "plain gradients divided": (("AMP403", "backward"),),
    "plain gradients stepped directly, then divided": (("AMP403", "backward"), ("AMP406", "at")),
    "plain on unscaled gradients, divided": (("AMP403", "backward"), ("AMP410", "update"), ("AMP411", "unscaled")),
    "a sum of unscaled and scaled": (("AMP411", "unscaled"),),
    "scaled gradients behind unscale_": (("AMP411", "unscaled"), ("AMP406", "unscaled")),
    "gradients of an old scale": (("AMP410", "update"),),
    "unscaled gradients divided by unscale_": (("AMP410", "update"), ("AMP405", "at")),
    "unscaled gradients divided by unscale_ behind a direct step": (
        ("AMP410", "update"),
        ("AMP405", "at"),
        ("AMP406", "at"),
    ),
    "unscaled gradients divided by step": (("AMP410", "update"),),
    "used gradients unscaled": (("AMP406", "at"), ("AMP410", "update")),
    "used gradients stepped": (("AMP410", "update"), ("AMP406", "at")),
    "no gradients": (("AMP407", "at"), ("AMP407", "unscaled")),
    "no gradients, cleared after unscale_": (("AMP407", "at"),),
    "no gradients, behind the step": (("AMP407", "at"), ("AMP406", "at")),
    "unscale_ again": (("AMP405", "at"),),
    "unscale_ again, in a later iteration": tuple(
        (code, where) for code in ("AMP404", "AMP405", "AMP411") for where in ("at", "unscaled")
    )
    + (("AMP402", "stepped"),),
    "called after step": (("AMP406", "at"),),
    "called after step, in a later iteration": (("AMP404", "stepped"), ("AMP404", "at"), ("AMP410", "update")),
    "update with nothing checked": (("AMP410", "at"),),
    "no scale": (("AMP418", "at"),),
    "no scale, behind a plain backward": (("AMP418", "at"), ("AMP403", "backward")),
    "update owed at the end": (("AMP404", "stepped"), ("AMP410", "update")),
}
CODES = frozenset(code for row in TABLE.values() for code, _ in row)


class Observed(NamedTuple):
    """Something that went wrong in a run, and the lines that have to do with it."""

    kind: str
    lines: tuple[tuple[str, tuple[int, ...]], ...]
    # Behind another misuse of the same gradients, or behind an exception: it may be found, and need not.
    secondary: bool = False

    def allowed(self) -> frozenset[tuple[str, int]]:
        """The findings that say it."""
        lines = dict(self.lines)
        return frozenset((code, line) for code, role in TABLE[self.kind] for line in lines.get(role, ()))

    def __str__(self) -> str:
        where = ", ".join(f"{role} {'/'.join(map(str, lines))}" for role, lines in self.lines)
        told = " or ".join(f"{code}@{line}" for code, line in sorted(self.allowed()))
        return f"{self.kind} ({where}){' [secondary]' if self.secondary else ''}: {told}"


def observed(kind: str, secondary: bool = False, **lines: int | list[int] | tuple[int, ...]) -> Observed:
    """An observation; lines that don't exist are left out."""
    given = {role: (where,) if isinstance(where, int) else tuple(sorted(set(where))) for role, where in lines.items()}
    kept = tuple((role, where) for role, where in sorted(given.items()) if where and where != (0,))
    found = Observed(kind, kept, secondary)
    assert found.allowed(), (kind, lines)
    return found
