import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from corpus import LETTERS, MEL, Corpus, CorruptAudio

MIN_RATIO = 2


class Acoustic(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.inp = nn.Linear(5 * MEL, d)
        self.mid = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, LETTERS + 1)
        with torch.no_grad():
            self.out.bias[0] = 1.0  # blank

    def forward(self, x):
        x = F.pad(x, (0, 0, 2, 2)).unfold(1, 5, 1).flatten(2)
        h = F.relu(self.inp(x))
        h = self.norm(h + F.relu(self.mid(h)))
        return self.out(h)


def collate(corpus, ids, stats):
    xs, ys = [], []
    for i in ids:
        try:
            x, y = corpus.load(int(i))
        except CorruptAudio:
            stats["corrupt"] += 1
            continue
        repeats = int((y[1:] == y[:-1]).sum())
        if len(x) < MIN_RATIO * len(y) + repeats:  # no alignment exists, CTC would be inf
            stats["short"] += 1
            continue
        xs.append(x)
        ys.append(y)
    if not xs:
        return None
    return pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs]), \
        torch.cat(ys), torch.tensor([len(y) for y in ys])


def main():
    torch.manual_seed(15)
    torch.set_num_threads(1)
    corpus = Corpus(280, seed=15)
    model = Acoustic()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20)
    stats = {"corrupt": 0, "short": 0, "batches": 0, "skipped_steps": 0}
    for epoch in range(8):
        total, n = 0.0, 0
        for ids in torch.randperm(len(corpus)).split(10):
            batch = collate(corpus, ids, stats)
            if batch is None:
                continue
            x, xl, y, yl = batch
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(x)
            logp = logits.float().log_softmax(-1).transpose(0, 1)
            loss = F.ctc_loss(logp, y, xl, yl, blank=0)
            if not torch.isfinite(loss):
                print("non-finite loss, batch left out")
                continue
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            old = scaler.get_scale()
            scaler.step(opt)
            scaler.update()
            if scaler.get_scale() < old:
                stats["skipped_steps"] += 1
            else:
                sched.step()
            stats["batches"] += 1
            total, n = total + loss.item(), n + 1
        print(f"epoch {epoch} ctc {total / n:.4f} last norm {norm.item():.3f} scale {scaler.get_scale():g} {stats}")


if __name__ == "__main__":
    main()
