"""Neural HMM: emissions from a small network, likelihood by the forward recursion."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sequences(Dataset):
    """Noisy vectors emitted by one of several left-to-right state machines."""

    def __init__(self, n, classes, states, dim, length, seed, world=5):
        g = torch.Generator().manual_seed(world)
        means = 1.5 * torch.randn(classes, states, dim, generator=g)
        g.manual_seed(seed)
        self.y = torch.randint(classes, (n,), generator=g)
        self.x = torch.empty(n, length, dim)
        for i in range(n):
            move = (torch.rand(length, generator=g) < 0.3).cumsum(0).clamp(max=states - 1)
            self.x[i] = means[self.y[i], move] + torch.randn(length, dim, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class NeuralHMM(nn.Module):
    def __init__(self, dim, classes, states, symbols, hidden=48):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, symbols))
        self.start = nn.Parameter(torch.zeros(classes, states))
        self.trans = nn.Parameter(torch.randn(classes, states, states) * 0.3)
        self.emit = nn.Parameter(torch.randn(classes, states, symbols) * 0.5)

    def forward(self, x):
        """Log likelihood of each sequence under each class: (batch, classes)."""
        symbol = self.encoder(x).softmax(-1)
        emit = self.emit.softmax(-1)
        trans = self.trans.softmax(-1)
        obs = torch.einsum("btk,csk->btcs", symbol, emit)
        alpha = self.start.softmax(-1) * obs[:, 0]
        alpha = alpha.to(obs.dtype)
        for t in range(1, x.size(1)):
            alpha = torch.einsum("bcs,csr->bcr", alpha, trans) * obs[:, t]
        return alpha.sum(-1).log()


def run(model, loader, optimizer=None, scaler=None):
    model.train(optimizer is not None)
    total = hits = count = 0
    for x, y in loader:
        with torch.autocast("cpu", torch.float16):
            score = model(x)
            loss = nn.functional.cross_entropy(score, y)
        if optimizer is not None:
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        total += loss.item() * len(y)
        hits += (score.argmax(1) == y).sum().item()
        count += len(y)
    return total / count, hits / count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--states", type=int, default=4)
    parser.add_argument("--symbols", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()
    torch.manual_seed(7)

    common = dict(classes=3, states=args.states, dim=6, length=args.length)
    train = DataLoader(Sequences(384, seed=1, **common), batch_size=32, shuffle=True)
    test = DataLoader(Sequences(96, seed=2, **common), batch_size=32)
    model = NeuralHMM(6, 3, args.states, args.symbols)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    for epoch in range(args.epochs):
        loss, acc = run(model, train, optimizer, scaler)
        with torch.no_grad():
            _, test_acc = run(model, test)
        print(f"epoch {epoch:02d}  nll {loss:.4f}  acc {acc:.3f} / {test_acc:.3f}  scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
