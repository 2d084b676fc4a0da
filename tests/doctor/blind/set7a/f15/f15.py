"""Character LM (GRU) on a synthetic grammar, float16, with a cautious loss scaler."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = "abcdefghij ."
STOI = {c: i for i, c in enumerate(VOCAB)}


def corpus(n=4000, seed=0):
    rnd = random.Random(seed)
    words = ["abba", "cede", "fig", "high", "jade", "bead", "cafe", "each"]
    out = []
    while len(out) < n:
        out += list(" ".join(rnd.choice(words) for _ in range(4))) + [".", " "]
    return torch.tensor([STOI[c] for c in out[:n]])


class CharLM(nn.Module):
    def __init__(self, v=len(VOCAB), d=48):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.rnn = nn.GRUCell(d, d)
        self.out = nn.Linear(d, v)

    def forward(self, x):
        h = torch.zeros(x.shape[0], self.rnn.hidden_size)
        ys = []
        for t in range(x.shape[1]):
            h = self.rnn(self.emb(x[:, t]), h)
            ys.append(self.out(h))
        return torch.stack(ys, 1)


class CautiousScaler:
    """GradScaler that also backs off when the loss gets worse."""

    def __init__(self, init=2.0**12):
        self.inner = torch.amp.GradScaler("cpu", init_scale=init, growth_interval=1000)
        self.last = None

    def backward(self, loss):
        self.inner.scale(loss).backward()

    def step(self, opt, loss):
        self.inner.step(opt)
        value = loss.item()
        if self.last is not None and value > self.last:
            self.inner.update(self.inner.get_scale() * 0.5)
        else:
            self.inner.update()
        self.last = value

    @property
    def scale(self):
        return self.inner.get_scale()


def main():
    torch.manual_seed(0)
    data = corpus()
    model = CharLM()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    scaler = CautiousScaler()
    for step in range(200):
        start = torch.randint(0, len(data) - 13, (16,))
        chunk = torch.stack([data[s : s + 13] for s in start])
        x, y = chunk[:, :-1], chunk[:, 1:]
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        scaler.backward(loss)
        scaler.step(opt, loss)
        if step % 20 == 0 or step == 199:
            print(f"step {step:3d} loss {loss.item():.4f} scale {scaler.scale:g}")


if __name__ == "__main__":
    main()
