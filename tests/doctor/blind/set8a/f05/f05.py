import argparse

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

ALPHABET = "abcdefgh"


class Utterances(Dataset):
    """Each letter is held for a few frames of a letter-specific pattern."""

    def __init__(self, n=256, n_mels=20, min_hold=2, max_hold=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        table = torch.randn(len(ALPHABET), n_mels, generator=g)
        self.items = []
        for _ in range(n):
            length = int(torch.randint(3, 9, (1,), generator=g))
            text = torch.randint(0, len(ALPHABET), (length,), generator=g)
            hold = torch.randint(min_hold, max_hold, (length,), generator=g)
            frames = table[text].repeat_interleave(hold, dim=0)
            frames = frames + 0.3 * torch.randn(frames.shape, generator=g)
            self.items.append((frames, text + 1))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    feats, texts = zip(*batch)
    flen = torch.tensor([len(f) for f in feats])
    tlen = torch.tensor([len(t) for t in texts])
    return pad_sequence(feats, batch_first=True), torch.cat(texts), flen, tlen


class SpeechNet(nn.Module):
    def __init__(self, n_mels=20, hidden=64, stride=4):
        super().__init__()
        self.stride = stride
        self.conv = nn.Conv1d(n_mels, hidden, kernel_size=5, stride=stride, padding=2)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, len(ALPHABET) + 1)

    def forward(self, x, lengths):
        h = torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        h, _ = self.rnn(h)
        out_len = (lengths - 1).div(self.stride, rounding_mode="floor") + 1
        return self.fc(h), out_len


def run_epoch(model, loader, ctc, opt, scaler):
    total = 0.0
    for feats, texts, flen, tlen in loader:
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            logits, olen = model(feats, flen)
            logp = logits.float().log_softmax(-1).transpose(0, 1)
            loss = ctc(logp, texts, olen, tlen)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        total += loss.item()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Utterances(), args.batch_size, shuffle=True, collate_fn=collate)
    model = SpeechNet(stride=args.stride)
    ctc = nn.CTCLoss(blank=0)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        print(f"[{epoch}] ctc {run_epoch(model, loader, ctc, opt, scaler):.3f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
