import torch
import torch.nn.functional as F


class AverageMeter:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def update(self, v, k=1):
        self.total += v * k
        self.n += k

    @property
    def avg(self):
        return self.total / max(self.n, 1)


def train_one_epoch(model, loader, optimizer, scaler, scheduler, epoch, log_every=5):
    model.train()
    meter, hits = AverageMeter(), AverageMeter()
    for it, (wav, label) in enumerate(loader):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=scaler.is_enabled()):
            logits = model(wav)
            loss = F.cross_entropy(logits, label, label_smoothing=0.05)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        meter.update(loss.item(), len(label))
        hits.update((logits.argmax(-1) == label).float().mean().item(), len(label))
        if it % log_every == 0:
            print(f"epoch {epoch} it {it:3d} loss {loss.item():.4f} "
                  f"acc {hits.avg:.3f} lr {scheduler.get_last_lr()[0]:.2e}")
    return meter.avg, hits.avg
