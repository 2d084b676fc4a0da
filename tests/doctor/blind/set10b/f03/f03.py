"""Click prediction from a user's history (bfloat16)."""
import torch
from torch import nn
from torch.utils.data import DataLoader

from data import ClickLog, collate
from network import InterestNet

SETTINGS = dict(items=40, dim=32, batch=64, epochs=6, lr=3e-3, seed=2)


def loaders(s):
    g = torch.Generator().manual_seed(s["seed"])
    tr = DataLoader(ClickLog(2400, s["items"], seed=1), s["batch"], shuffle=True,
                    collate_fn=collate, generator=g)
    va = DataLoader(ClickLog(400, s["items"], seed=7), s["batch"], collate_fn=collate)
    return tr, va


def run_epoch(model, loader, criterion, optimizer=None):
    training = optimizer is not None
    model.train(training)
    seen = hits = 0
    total = 0.0
    with torch.set_grad_enabled(training):
        for hist, cand, label in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logit = model(hist, cand)
                loss = criterion(logit.float(), label)
            if training:
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
            seen += len(label)
            total += loss.item() * len(label)
            hits += ((logit > 0) == (label > 0.5)).sum().item()
    return total / seen, hits / seen


def main():
    s = SETTINGS
    torch.manual_seed(s["seed"])
    train_loader, val_loader = loaders(s)
    model = InterestNet(s["items"], s["dim"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=s["lr"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, s["epochs"])
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(1, s["epochs"] + 1):
        tl, ta = run_epoch(model, train_loader, criterion, optimizer)
        vl, va = run_epoch(model, val_loader, criterion)
        sched.step()
        print(f"[{epoch}/{s['epochs']}] train {tl:.4f} acc {ta:.3f} | val {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
