"""Character-level music (ABC-like) model, LSTM cell loop, SGD with warm-up, bf16."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

NOTES = "CDEFGABcdefgab|: z2"


def tune(length, gen):
    key = int(torch.randint(0, 7, (1,), generator=gen))
    motif = torch.randint(0, 7, (4,), generator=gen)
    out = []
    while len(out) < length:
        out += [int((m + key) % 14) for m in motif] + [14]
        if torch.rand(1, generator=gen) < 0.2:
            motif = torch.randint(0, 7, (4,), generator=gen)
    return torch.tensor(out[:length])


class TuneModel(nn.Module):
    def __init__(self, vocab, dim=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.inp = nn.Linear(dim, dim)
        self.rec = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, x):
        e = self.inp(self.embed(x))
        h = torch.zeros_like(e[:, 0])
        outs = []
        for t in range(x.shape[1]):
            h = F.relu(e[:, t] + self.rec(h))
            outs.append(h)
        return self.out(torch.stack(outs, 1))


def build(args):
    model = TuneModel(len(NOTES))
    nn.init.eye_(model.rec.weight)
    model.rec.weight.data.mul_(0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: (s + 1) / args.warmup)
    return model, optimizer, scheduler


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--batch", type=int, default=16)
    args = p.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    model, optimizer, scheduler = build(args)
    for step in range(args.steps):
        seq = torch.stack([tune(25, gen) for _ in range(args.batch)])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(seq[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, len(NOTES)), seq[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 15 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
