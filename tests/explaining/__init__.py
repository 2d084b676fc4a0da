"""What `amplint explain` claims is held against: programs that raise the messages, and the sources that print them."""

from __future__ import annotations

from pathlib import Path

from amplint.explain.messages import Message
from amplint.explain.search import find

# Logs in which there is nothing to explain.
LOGS = sorted((Path(__file__).parent / "logs").iterdir())
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/user/project/train.py", line 31, in <module>
    train()
  File "/home/user/project/train.py", line 27, in train
    scaler.unscale_(optimizer)
  File "/opt/conda/lib/python3.11/site-packages/torch/amp/grad_scaler.py", line 342, in unscale_
    raise RuntimeError(
RuntimeError: unscale_() has already been called on this optimizer since the last update().
"""


def first(text: str) -> Message:
    """The message that answers a question, or is the likeliest of those that may."""
    found = find(text, asked=True)
    return found.hits[0].message if found.hits else found.candidates[0]


def ids(text: str, *, asked: bool = False) -> list[str]:
    """The messages in a text."""
    return [hit.message.id for hit in find(text, asked=asked).hits]
