"""Line recogniser (CRNN + CTC) on rendered strings."""
import random
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

ALPHABET = "0123456789"
GLYPHS = torch.rand(len(ALPHABET), 8, 6, generator=torch.Generator().manual_seed(5)).round()


class Lines(Dataset):
    """Every image is 8 x width. Long strings are squeezed to the width as the scanner does."""

    def __init__(self, count, width=48, longest=8, seed=0):
        rnd = random.Random(seed)
        self.width = width
        self.texts = []
        for _ in range(count):
            n = rnd.randint(2, longest) if rnd.random() < 0.9 else rnd.randint(14, 18)
            self.texts.append("".join(rnd.choice(ALPHABET) for _ in range(n)))

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        ids = [ALPHABET.index(c) for c in self.texts[i]]
        strip = torch.cat([GLYPHS[k] for k in ids], dim=1)
        if strip.shape[1] > self.width:
            strip = nn.functional.interpolate(strip[None, None], size=(8, self.width), mode="bilinear")[0, 0]
        page = torch.zeros(8, self.width)
        page[:, :strip.shape[1]] = strip
        return page[None], torch.tensor(ids) + 1


def collate(batch):
    x = torch.stack([b[0] for b in batch])
    y = torch.cat([b[1] for b in batch])
    n = torch.tensor([len(b[1]) for b in batch])
    return x, y, n


class CRNN(nn.Module):
    def __init__(self, classes, hidden=32):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 2)))
        self.rnn = nn.GRU(32 * 2, hidden, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, x):
        f = self.cnn(x)
        f = f.flatten(1, 2).transpose(1, 2)
        return self.fc(self.rnn(f)[0]).log_softmax(-1).transpose(0, 1)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Lines(160), batch_size=16, shuffle=True, collate_fn=collate)
    model = CRNN(len(ALPHABET) + 1)
    criterion = nn.CTCLoss(blank=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(5):
        running = 0.0
        for x, y, n in loader:
            logp = model(x)
            steps = torch.full((x.shape[0],), logp.shape[0], dtype=torch.long)
            loss = criterion(logp, y, steps, n)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            running += loss.item()
        print("epoch", epoch, "ctc", round(running / len(loader), 4))


main()
