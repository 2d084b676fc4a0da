"""Linear probing and late unfreezing of an audio encoder, with gradient accumulation."""
import math

import torch
from torch import nn


class AudioEncoder(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 24, 16, 8, 4), nn.GroupNorm(4, 24), nn.GELU(),
            nn.Conv1d(24, dim, 8, 4, 2), nn.GroupNorm(4, dim), nn.GELU())
        self.top = nn.Sequential(nn.Conv1d(dim, dim, 3, padding=1), nn.GELU())

    def forward(self, wav):
        return self.top(self.conv(wav.unsqueeze(1))).mean(-1)


class Classifier(nn.Module):
    def __init__(self, encoder, classes=5):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(48, classes)

    def forward(self, wav):
        return self.head(self.encoder(wav))


def sounds(n, g, classes=5, length=1024):
    t = torch.arange(length).float()
    y = torch.randint(classes, (n,), generator=g)
    f = 0.02 * 1.5 ** y.float()[:, None] * (0.96 + 0.08 * torch.rand(n, 1, generator=g))
    am = 1 + 0.5 * torch.sin(2 * math.pi * t * 0.004 * (1 + y[:, None] % 2))
    wav = am * torch.sin(2 * math.pi * f * t + 6.28 * torch.rand(n, 1, generator=g))
    return wav + 0.3 * torch.randn(n, length, generator=g), y


def pretrain(encoder, g, steps=40):
    """Predict the dominant zero crossing rate; float32."""
    probe = nn.Linear(48, 1)
    opt = torch.optim.Adam([*encoder.parameters(), *probe.parameters()], 2e-3)
    for _ in range(steps):
        wav, _ = sounds(32, g)
        zcr = (wav[:, 1:].sign() != wav[:, :-1].sign()).float().mean(1)
        loss = nn.functional.mse_loss(probe(encoder(wav)).squeeze(1), 4 * zcr)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretrain mse {loss.item():.4f}")


def evaluate(model, wav, y):
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        acc = (model(wav).argmax(1) == y).float().mean().item()
    model.train()
    return acc


def main(epochs=6, updates=12, accumulate=4):
    torch.manual_seed(90)
    g = torch.Generator().manual_seed(90)
    encoder = AudioEncoder()
    pretrain(encoder, g)
    model = Classifier(encoder)
    encoder.requires_grad_(False)
    opt = torch.optim.AdamW([
        {"params": model.head.parameters(), "lr": 2e-2, "name": "head"},
        {"params": encoder.top.parameters(), "lr": 2e-3, "name": "top"}])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24)
    held = sounds(200, torch.Generator().manual_seed(5))
    for epoch in range(epochs):
        if epoch == 3:
            encoder.top.requires_grad_(True)
            print("unfreezing the top block")
        total, norm = 0.0, torch.zeros(())
        for _ in range(updates):
            opt.zero_grad(set_to_none=True)
            for _ in range(accumulate):
                wav, y = sounds(8, g)
                with torch.autocast("cpu", dtype=torch.float16):
                    logits = model(wav)
                loss = nn.functional.cross_entropy(logits.float(), y) / accumulate
                scaler.scale(loss).backward()
                total += loss.item()
            scaler.unscale_(opt)
            norm = nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
            scaler.step(opt)
            scaler.update()
        print(f"epoch {epoch} loss {total / updates:.4f} acc {evaluate(model, *held):.3f} "
              f"norm {norm:.3g} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
