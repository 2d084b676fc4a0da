import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BLANK = 0


class Utterances(Dataset):
    def __init__(self, n, seed, vocab=8, n_feat=16):
        rng = random.Random(seed)
        proto = torch.randn(vocab, n_feat, generator=torch.Generator().manual_seed(0))
        gen = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            units = [rng.randrange(1, vocab) for _ in range(rng.randint(2, 5))]
            durations = [rng.choice([2, 4, 5, 6, 7]) for _ in units]
            feats = torch.cat([proto[u].repeat(d, 1) for u, d in zip(units, durations)])
            self.rows.append((feats + 0.3 * torch.randn(feats.shape, generator=gen), torch.tensor(units)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    feats = nn.utils.rnn.pad_sequence([f for f, _ in rows], batch_first=True)
    labels = torch.cat([u for _, u in rows])
    return feats, torch.tensor([len(f) for f, _ in rows]), labels, torch.tensor([len(u) for _, u in rows])


class Frontend(nn.Module):
    def __init__(self, n_feat, width):
        super().__init__()
        self.conv = nn.Conv1d(n_feat, width, 3, padding=1)
        self.sub = nn.Conv1d(width, width, 3, stride=2, padding=1)

    def forward(self, x):
        return torch.relu(self.sub(torch.relu(self.conv(x.transpose(1, 2))))).transpose(1, 2)


class Recognizer(nn.Module):
    def __init__(self, n_feat=16, width=48, vocab=8):
        super().__init__()
        self.frontend = Frontend(n_feat, width)
        self.frontend.requires_grad_(False)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.aux = nn.Linear(width, vocab)
        self.head = nn.Linear(width, vocab)

    def forward(self, feats):
        h = self.frontend(feats)
        return self.head(h + self.mix(h))


def greedy(logits, lengths):
    out = []
    for row, n in zip(logits.argmax(-1), lengths):
        units = torch.unique_consecutive(row[:n])
        out.append(units[units != BLANK].tolist())
    return out


def evaluate(model, loader):
    half = Recognizer()
    half.load_state_dict(model.state_dict())
    half = half.half().eval()
    right = total = 0
    with torch.inference_mode():
        for feats, n, labels, m in loader:
            hyps = greedy(half(feats.half()), (n + 1) // 2)
            for hyp, ref in zip(hyps, labels.split(m.tolist())):
                right += hyp == ref.tolist()
                total += 1
    return right / total


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--lr", type=float, default=4e-3)
    args = p.parse_args()
    torch.manual_seed(1)
    train = DataLoader(Utterances(320, 1), 16, shuffle=True, collate_fn=collate)
    valid = DataLoader(Utterances(64, 2), 16, collate_fn=collate)
    model = Recognizer()
    ctc = nn.CTCLoss(blank=BLANK, reduction="sum", zero_infinity=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
    for epoch in range(args.epochs):
        total = 0.0
        for feats, n, labels, m in train:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(feats)
            logp = logits.float().log_softmax(-1).transpose(0, 1)
            loss = ctc(logp, labels, (n + 1) // 2, m)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_([q for q in model.parameters() if q.grad is not None], 200.0)
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        print(f"epoch {epoch} ctc {total / len(train.dataset):.4f} exact {evaluate(model, valid):.3f}")
