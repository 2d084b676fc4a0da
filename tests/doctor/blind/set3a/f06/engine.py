import torch
import torch.nn.functional as F


def train_epoch(model, loader, opt, scaler, epoch, log_every=6):
    model.train()
    for step, (hist, valid, cand, label) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.float16, enabled=scaler.is_enabled()):
            scores = model(hist, valid, cand)
            loss = F.cross_entropy(scores, label)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        if step % log_every == 0:
            print(f"epoch {epoch} it {step:3d} loss {loss.item():.4f}")


@torch.inference_mode()
def mrr(model, loader):
    model.eval()
    total = n = 0
    for hist, valid, cand, label in loader:
        s = model(hist, valid, cand)
        rank = (s > s.gather(1, label[:, None])).sum(1) + 1
        total += (1.0 / rank).sum().item()
        n += len(label)
    return total / n
