"""Character model with tied weights, trained in float16 mixed precision."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = ("the cat sat on the mat and the dog ran in the park while a bird sang to the sun "
        "then the cat ran to the dog and they sat in the sun on a mat in the park ") * 30


class TiedGRU(nn.Module):
    def __init__(self, vocab, dim=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.proj = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab, bias=True)
        self.head.weight = self.emb.weight
        nn.init.normal_(self.emb.weight, std=0.3)

    def forward(self, ids, state=None):
        h, state = self.gru(self.emb(ids), state)
        return self.head(torch.tanh(self.proj(h))), state


@torch.no_grad()
def generate(model, chars, prompt, length, top_k=3):
    index = {c: i for i, c in enumerate(chars)}
    ids = torch.tensor([[index[c] for c in prompt]])
    out, state = prompt, None
    for _ in range(length):
        logits, state = model(ids, state)
        logits = logits[:, -1]
        kth = logits.topk(top_k).values[:, -1:]
        probs = logits.masked_fill(logits < kth, float("-inf")).softmax(-1)
        ids = torch.multinomial(probs, 1)
        out += chars[ids.item()]
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=220)
    p.add_argument("--length", type=int, default=32)
    p.add_argument("--batch", type=int, default=16)
    args = p.parse_args()
    torch.manual_seed(0)
    chars = sorted(set(TEXT))
    data = torch.tensor([chars.index(c) for c in TEXT])
    model = TiedGRU(len(chars))
    opt = torch.optim.AdamW(model.parameters(), lr=8e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 26, growth_interval=150)
    for step in range(args.steps):
        start = torch.randint(len(data) - args.length - 1, (args.batch,))
        rows = data[start[:, None] + torch.arange(args.length + 1)]
        with torch.autocast("cpu", dtype=torch.float16):
            logits, _ = model(rows[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        sched.step()
        if step < 8 or step % 40 == 0 or step == args.steps - 1:
            print(f"step {step:4d} loss {loss.item():.4f} grad norm {norm:.3f} scale 2^{math.log2(scaler.get_scale()):.0f}")
    print(generate(model, chars, "the ", 60))


if __name__ == "__main__":
    main()
