import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from dataset import Clips
from models import Tagger

EPOCHS = 4
DEVICE = "cpu"


def train_epoch(model, loader, opt, scaler, sched):
    model.train()
    running = 0.0
    for x, n, y in loader:
        x, n, y = x.to(DEVICE), n.to(DEVICE), y.to(DEVICE)
        opt.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.float16):
            loss = F.cross_entropy(model(x, n), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        sched.step()
        running += loss.item()
    return running / len(loader)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss, hit, n_all = 0.0, 0, 0
    for x, n, y in loader:
        x, n, y = x.to(DEVICE), n.to(DEVICE), y.to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.float16):
            logits = model(x, n)
        loss += F.cross_entropy(logits.float(), y, reduction="sum").item()
        hit += (logits.argmax(1) == y).sum().item()
        n_all += len(y)
    return loss / n_all, hit / n_all


def main():
    torch.manual_seed(3)
    train_set = Clips(240, 600, crop=64, seed=1)
    val_set = Clips(30, 2400, seed=2)
    train_loader = DataLoader(train_set, batch_size=16, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=6)
    model = Tagger().to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=EPOCHS * len(train_loader))
    scaler = torch.amp.GradScaler(DEVICE)
    best = float("inf")
    for epoch in range(EPOCHS):
        tr = train_epoch(model, train_loader, opt, scaler, sched)
        va, acc = validate(model, val_loader)
        if va < best:
            best = va
            torch.save(model.state_dict(), "/tmp/tagger_best.pt")
        print(f"epoch {epoch}  train {tr:.4f}  val {va:.4f}  acc {acc:.3f}  best {best:.4f}")


if __name__ == "__main__":
    main()
