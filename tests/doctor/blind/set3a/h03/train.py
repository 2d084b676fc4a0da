import math
import os
import sys
import tempfile

import torch
import torch.nn.functional as F

from lm import LM

VERSES = """the owl looked up to the stars above and sang to a small guitar
they took some honey and plenty of money wrapped up in a five pound note
they sailed away for a year and a day to the land where the bong tree grows
and hand in hand on the edge of the sand they danced by the light of the moon
"""


def main(steps=90):
    torch.manual_seed(1337)
    path = os.path.join(tempfile.mkdtemp(), "poem.txt")
    with open(path, "w") as f:
        f.write(VERSES * 12)
    text = open(path).read()
    chars = sorted(set(text))
    enc = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([enc[c] for c in text])
    model = LM(len(chars))
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    lr = lambda s: min(1.0, (s + 1) / 10) * 0.5 * (1 + math.cos(math.pi * s / steps))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr)
    best = float("inf")
    for s in range(steps):
        i = torch.randint(0, len(data) - 49, (12,))
        x = torch.stack([data[j:j + 48] for j in i])
        y = torch.stack([data[j + 1:j + 49] for j in i])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        best = min(best, loss.item())
        if s % 15 == 0:
            print(f"step {s} loss {loss.item():.3f} best {best:.3f}", file=sys.stderr)
    out = model.generate(torch.tensor([[enc["t"]]]), 60)
    print("".join(chars[i] for i in out[0].tolist()))


if __name__ == "__main__":
    main()
