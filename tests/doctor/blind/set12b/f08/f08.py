"""Sequence-to-sequence copy of noisy curves with an LSTM encoder/decoder (bf16)."""
import argparse
import math

import torch
import torch.nn as nn


class Seq2Seq(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.encoder = nn.LSTM(channels, hidden, batch_first=True)
        self.decoder = nn.LSTM(channels, hidden, batch_first=True)
        self.head = nn.Linear(hidden, channels)

    def forward(self, src, shifted):
        _, state = self.encoder(src)
        out, _ = self.decoder(shifted, state)
        return self.head(out)


def curves(n, length, channels):
    phase = torch.rand(n, 1, channels) * 2 * math.pi
    freq = torch.rand(n, 1, channels) * 2 + 1
    t = torch.linspace(0, 2 * math.pi, length)[None, :, None]
    clean = torch.sin(freq * t + phase)
    return clean + 0.1 * torch.randn_like(clean), clean


def train(args):
    torch.manual_seed(args.seed)
    model = Seq2Seq(args.channels, args.hidden)
    criterion = nn.MSELoss(reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.7)
    history = []
    for step in range(args.steps):
        noisy, clean = curves(args.batch, args.length, args.channels)
        shifted = torch.cat([torch.zeros_like(clean[:, :1]), clean[:, :-1]], 1)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(noisy, shifted)
        loss = criterion(pred.float(), clean)
        loss.backward()
        optimizer.step()
        scheduler.step()
        history.append(loss.item() / clean.numel())
        if step % 5 == 0:
            print(f"step {step:3d}  per-element {history[-1]:.5g}")
    return history


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=2)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--length", type=int, default=30)
    ap.add_argument("--channels", type=int, default=3)
    ap.add_argument("--hidden", type=int, default=32)
    train(ap.parse_args())
