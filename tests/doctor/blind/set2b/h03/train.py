import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from gin import GIN
from molecules import Assays, collate


def masked_mse(pred, target):
    known = ~torch.isnan(target)
    return F.mse_loss(pred[known].float(), target[known])


def evaluate(model, loader):
    model.eval()
    se, n = torch.zeros(6), torch.zeros(6)
    with torch.inference_mode():
        for x, e, owner, y in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                p = model(x, e, owner, len(y)).float()
            known = ~torch.isnan(y)
            se += torch.where(known, (p - y) ** 2, 0.0).nan_to_num().sum(0)
            n += known.sum(0)
    model.train()
    return (se / n).sqrt()


def main():
    torch.manual_seed(0)
    train = DataLoader(Assays(), 32, shuffle=True, collate_fn=collate)
    valid = DataLoader(Assays(100, seed=9), 50, collate_fn=collate)
    model = GIN(8, 6)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 17)
    best = [float("inf")] * 6
    for epoch in range(4):
        for x, e, owner, y in train:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = masked_mse(model(x, e, owner, len(y)), y)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        rmse = evaluate(model, valid)
        plateau.step(rmse.mean())
        best = [min(b, r) for b, r in zip(best, rmse.tolist())]
        print(f"epoch {epoch} loss {loss.item():.3f} rmse", " ".join(f"{r:.3f}" for r in rmse), f"scale {scaler.get_scale():.0f}")
    print("best", [round(b, 3) for b in best])


if __name__ == "__main__":
    main()
