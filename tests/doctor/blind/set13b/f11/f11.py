"""Seq2seq with attention: write a digit string backwards."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, V = 0, 1, 12


def get_batch(n, length=6):
    src = torch.randint(2, V, (n, length))
    tgt = src.flip(1)
    inp = torch.cat([torch.full((n, 1), BOS), tgt[:, :-1]], dim=1)
    return src, inp, tgt


class Encoder(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.pos = nn.Parameter(torch.randn(16, d) * 0.5)
        self.mix = nn.Linear(d, d)

    def forward(self, src):
        return self.mix(self.tok(src) + self.pos[: src.size(1)])


class Decoder(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.pos = nn.Parameter(torch.randn(16, d) * 0.5)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Sequential(nn.Linear(2 * d, d), nn.ReLU(), nn.Linear(d, V))

    def forward(self, inp, mem):
        h = self.tok(inp) + self.pos[: inp.size(1)]
        att = self.q(h) @ self.k(mem).transpose(1, 2) / mem.size(-1) ** 0.5
        ctx = att.softmax(-1) @ self.v(mem)
        return self.out(torch.cat([h.to(ctx.dtype), ctx], dim=-1))


class Seq2Seq(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.enc, self.dec = Encoder(d), Decoder(d)

    def forward(self, src, inp):
        return self.dec(inp, self.enc(src))


def train(steps=200, lr=0.15, clip=1.0):
    torch.manual_seed(17)
    model = Seq2Seq()
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for step in range(steps):
        src, inp, tgt = get_batch(32)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(src, inp)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), tgt.flatten(), ignore_index=PAD)
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(opt)
        scaler.update()
        if step % 25 == 24:
            hit = (logits.argmax(-1) == tgt).float().mean().item()
            print(f"step {step + 1} loss {loss.item():.4f} tokens right {hit:.3f}")
    return model


if __name__ == "__main__":
    train()
