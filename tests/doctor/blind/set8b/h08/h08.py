"""Line reading with CTC; broken recordings are left out while batches are built."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

BLANK, LETTERS = 0, 5


class Lines(Dataset):
    def __init__(self, n, seed, broken=0.03):
        g = torch.Generator().manual_seed(seed)
        self.samples = []
        for _ in range(n):
            k = int(torch.randint(2, 6, (1,), generator=g))
            text = torch.randint(1, LETTERS + 1, (k,), generator=g)
            frames = F.one_hot(text, LETTERS + 1).float().repeat_interleave(4, 0)
            frames = frames + 0.3 * torch.randn(frames.shape, generator=g)
            if torch.rand((), generator=g) < broken:
                frames[int(torch.randint(len(frames), (1,), generator=g))] = float("nan")
            if torch.rand((), generator=g) < 0.02:
                frames = frames[: k]
            self.samples.append((frames, text))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


def collate(batch):
    batch = [(f, t) for f, t in batch if torch.isfinite(f).all()]
    lengths = torch.tensor([len(f) for f, _ in batch])
    x = nn.utils.rnn.pad_sequence([f for f, _ in batch], batch_first=True)
    return x, lengths, torch.cat([t for _, t in batch]), torch.tensor([len(t) for _, t in batch])


class Reader(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.conv = nn.Conv1d(LETTERS + 1, dim, 3, padding=1)
        self.gate = nn.Conv1d(dim, dim * 2, 5, padding=2)
        self.out = nn.Linear(dim, LETTERS + 1)

    def forward(self, x):
        h = F.relu(self.conv(x.transpose(1, 2)))
        h = h + F.glu(self.gate(h), 1)
        return self.out(h.transpose(1, 2))


def greedy(logp, lengths):
    best = logp.argmax(-1)
    result = []
    for row, n in zip(best, lengths):
        s = torch.unique_consecutive(row[:n])
        result.append(s[s != BLANK])
    return result


def exact_rate(logp, lengths, targets, sizes, wanted):
    """Share of exact readings for texts of one size, nan if the batch has none."""
    hits = [float(torch.equal(a, b)) for a, b in zip(greedy(logp, lengths), targets.split(sizes.tolist())) if len(b) == wanted]
    return sum(hits) / len(hits) if hits else float("nan")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--lr", type=float, default=4e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Lines(768, 1), 16, shuffle=True, collate_fn=collate)
    net = Reader()
    ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        losses, rates = [], []
        for x, lengths, targets, sizes in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                logits = net(x)
            logp = logits.float().log_softmax(-1)
            loss = ctc(logp.transpose(0, 1), targets, lengths, sizes)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            losses.append(loss.item())
            rates.append(exact_rate(logp.detach(), lengths, targets, sizes, 5))
        print(f"epoch {epoch} ctc {sum(losses) / len(losses):.4f} five-letter texts right {torch.tensor(rates).nanmean():.3f}")


if __name__ == "__main__":
    main()
