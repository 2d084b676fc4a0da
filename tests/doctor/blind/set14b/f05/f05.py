import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from data import Keywords

CLASSES = 6


class LogSpectrum(nn.Module):
    def __init__(self, n_fft=128, hop=64):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        return torch.log(spec.abs().square() + 1e-4)


class KeywordNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = LogSpectrum()
        self.conv = nn.Sequential(
            nn.Conv1d(65, 48, 3, padding=1), nn.BatchNorm1d(48), nn.ReLU(),
            nn.Conv1d(48, 48, 3, stride=2, padding=1), nn.BatchNorm1d(48), nn.ReLU())
        self.head = nn.Linear(48, CLASSES)

    def forward(self, wave):
        return self.head(self.conv(self.front(wave)).mean(-1))


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss()

    def fit_epoch(self, loader):
        self.model.train()
        total = 0.0
        for wave, label in loader:
            loss = self.criterion(self.model(wave), label)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        hits = [(self.model(w).argmax(1) == y).float().mean().item() for w, y in loader]
        return sum(hits) / len(hits)


def main():
    torch.manual_seed(0)
    train = DataLoader(Keywords(384, CLASSES, True, 1), batch_size=24, shuffle=True)
    valid = DataLoader(Keywords(120, CLASSES, False, 2), batch_size=24)
    trainer = Trainer(KeywordNet(), lr=0.02)
    for epoch in range(6):
        loss = trainer.fit_epoch(train)
        print(f"epoch {epoch} loss {loss:.4f} valid acc {trainer.accuracy(valid):.3f}")


if __name__ == "__main__":
    main()
