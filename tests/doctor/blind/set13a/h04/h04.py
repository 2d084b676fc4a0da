"""CTC recogniser on half precision; a few labels do not fit in the frame count."""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

CHARS = "abcdef"


class OCR(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(6, hidden, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(hidden, hidden, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(hidden, hidden, 3, 1, 1), nn.ReLU())
        self.out = nn.Conv1d(hidden, len(CHARS) + 1, 1)

    def forward(self, x):
        return self.out(self.conv(x)).permute(2, 0, 1)


def make(n, width=48, seed=0):
    rnd = random.Random(seed)
    gen = torch.Generator().manual_seed(seed)
    glyph = torch.rand(len(CHARS), 6, 6, generator=torch.Generator().manual_seed(77)).round()
    xs, ys = [], []
    for _ in range(n):
        k = rnd.randint(2, 5) if rnd.random() < 0.93 else 13
        ids = [rnd.randrange(len(CHARS)) for _ in range(k)]
        strip = torch.cat([F.pad(glyph[i], (1, 1)) for i in ids], 1)
        if strip.shape[1] > width:
            strip = F.interpolate(strip[None], size=width, mode="linear")[0]
        page = torch.zeros(6, width)
        page[:, :strip.shape[1]] = strip
        xs.append(page + 0.1 * torch.randn(6, width, generator=gen))
        ys.append(torch.tensor(ids) + 1)
    return torch.stack(xs), ys


def greedy(logits):
    best = logits.argmax(-1).t().tolist()
    out = []
    for row in best:
        seq = [c for i, c in enumerate(row) if c and (i == 0 or row[i - 1] != c)]
        out.append(seq)
    return out


def main():
    torch.manual_seed(0)
    x, y = make(200)
    model = OCR()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    ctc = nn.CTCLoss(zero_infinity=True)
    for step in range(120):
        j = torch.randperm(len(x))[:16]
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x[j])
        logp = logits.float().log_softmax(-1)
        labels = [y[k] for k in j.tolist()]
        n_in = torch.full((16,), logp.shape[0], dtype=torch.long)
        n_out = torch.tensor([len(t) for t in labels])
        loss = ctc(logp, torch.cat(labels), n_in, n_out)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        scaler.step(opt)
        scaler.update()
        if step % 20 == 0 or step == 119:
            with torch.no_grad():
                hit = sum(a == b.tolist() for a, b in zip(greedy(model(x)), y)) / len(x)
            print(f"step {step} ctc {loss.item():.4f} exact {hit:.3f}")


main()
