import math

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from ranker import HistoryRanker
from sessions import Sessions, collate


def step(model, batch, opt, scaler):
    hist, mask, target = batch
    opt.zero_grad(set_to_none=True)
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        logits = model(hist, mask)
    loss = F.cross_entropy(logits.float(), target)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    return loss.detach()


def main(epochs=2, bs=16):
    torch.manual_seed(4)
    loader = DataLoader(Sessions(), batch_size=bs, shuffle=False, collate_fn=collate, num_workers=2)
    model = HistoryRanker()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu")
    for ep in range(epochs):
        losses = []
        for i, batch in enumerate(loader):
            losses.append(step(model, batch, opt, scaler))
            if i % 10 == 0:
                print(f"ep {ep} [{i}/{len(loader)}] loss {losses[-1].item():.4f}", flush=True)
        mean = torch.stack(losses).mean().item()
        print(f"ep {ep} mean loss {mean:.4f}")
        assert math.isfinite(mean), "training diverged"


if __name__ == "__main__":
    main()
