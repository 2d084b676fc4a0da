"""Molecule-like graph regression with message passing over padded batches."""
import json

import torch
import torch.nn.functional as F
from torch import nn

PARAMS = {
    "graphs": 900, "max_nodes": 12, "atom_types": 6, "dim": 48, "rounds": 3,
    "batch": 60, "epochs": 6, "lr": 2e-3, "seed": 14,
    "amp": {"dtype": "float16", "init_scale": 2.0 ** 36, "growth_factor": 1.001,
            "backoff_factor": 0.98, "growth_interval": 200},
}


def make_graphs(p):
    g = torch.Generator().manual_seed(p["seed"])
    n, m = p["graphs"], p["max_nodes"]
    size = torch.randint(4, m + 1, (n,), generator=g)
    atoms = torch.randint(0, p["atom_types"], (n, m), generator=g)
    live = torch.arange(m)[None] < size[:, None]
    a = torch.triu((torch.rand(n, m, m, generator=g) < 0.3).float(), 1)
    a = (a + a.transpose(1, 2)) * live[:, :, None] * live[:, None, :]
    charge = torch.randn(p["atom_types"], generator=g)
    q = charge[atoms] * live
    energy = 0.5 * torch.einsum("bi,bij,bj->b", q, a, q) + q.sum(1)
    energy = (energy - energy.mean()) / energy.std()
    return atoms, a, live.float(), energy


class MessagePassing(nn.Module):
    def __init__(self, p):
        super().__init__()
        d = p["dim"]
        self.atom = nn.Embedding(p["atom_types"], d)
        self.msg = nn.ModuleList([nn.Linear(d, d) for _ in range(p["rounds"])])
        self.upd = nn.ModuleList([nn.Linear(2 * d, d) for _ in range(p["rounds"])])
        self.out = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1))

    def forward(self, atoms, adj, live):
        h = self.atom(atoms) * live[..., None]
        for msg, upd in zip(self.msg, self.upd):
            m = torch.bmm(adj, msg(h)) / 4.0
            h = h + F.relu(upd(torch.cat([h, m.to(h.dtype)], dim=-1))) * live[..., None]
        return (self.out(h).squeeze(-1) * live).sum(1)


def main():
    p = PARAMS
    print(json.dumps(p))
    torch.manual_seed(p["seed"])
    atoms, adj, live, energy = make_graphs(p)
    cut = int(0.8 * p["graphs"])
    net = MessagePassing(p)
    opt = torch.optim.Adam(net.parameters(), lr=p["lr"])
    amp = p["amp"]
    dtype = getattr(torch, amp["dtype"])
    scaler = torch.amp.GradScaler("cpu", init_scale=amp["init_scale"], growth_factor=amp["growth_factor"],
                                  backoff_factor=amp["backoff_factor"],
                                  growth_interval=amp["growth_interval"])
    for epoch in range(p["epochs"]):
        net.train()
        total = 0.0
        for i in torch.randperm(cut).split(p["batch"]):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                loss = F.smooth_l1_loss(net(atoms[i], adj[i], live[i]), energy[i])
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item() * len(i)
        net.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
            pred = net(atoms[cut:], adj[cut:], live[cut:]).float()
        mae = (pred - energy[cut:]).abs().mean().item()
        print(f"epoch {epoch} loss {total / cut:.4f} val mae {mae:.4f}")


if __name__ == "__main__":
    main()
