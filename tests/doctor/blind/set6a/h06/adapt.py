"""Adapter tuning: backbone frozen, adapters and head trained, blocks checkpointed."""
import json
import torch
import torch.nn.functional as F

from model import Net


def trainable(name):
    return "adapter" in name or name.startswith("head")


def data(n, g):
    c = torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
    y = torch.randint(0, 6, (n,), generator=g)
    return c[y] + 0.7 * torch.randn(n, 16, generator=g), y


def main():
    torch.manual_seed(3)
    net = Net()
    for name, p in net.named_parameters():
        p.requires_grad_(trainable(name))
    groups = [
        {"params": [p for n, p in net.named_parameters() if "adapter" in n], "lr": 5e-3},
        {"params": [p for n, p in net.named_parameters() if n.startswith("head")], "lr": 1e-2},
    ]
    opt = torch.optim.AdamW(groups, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cpu")
    g = torch.Generator().manual_seed(1)
    best = {"loss": float("inf")}
    net.train()
    for step in range(60):
        x, y = data(64, g)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(net(x), y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_([p for p in net.parameters() if p.grad is not None], 1.0)
        scaler.step(opt)
        scaler.update()
        if loss.item() < best["loss"]:
            best = {"step": step, "loss": round(loss.item(), 4)}
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(json.dumps(best))


if __name__ == "__main__":
    main()
