import argparse
import math

import torch
import torch.nn.functional as F

from dropedge import DropEdge
from gat import GAT

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--nodes", type=int, default=240)
parser.add_argument("--p-max", type=float, default=0.5)
parser.add_argument("--patience", type=int, default=15)
parser.add_argument("--amp-dtype", choices=["float16", "bfloat16"], default="float16")
args = parser.parse_args()

torch.manual_seed(42)
n, n_cls = args.nodes, 4
y = torch.randint(0, n_cls, (n,))
x = F.one_hot(y, n_cls).float() @ torch.randn(n_cls, 32) + 1.5 * torch.randn(n, 32)
prob = torch.where(y[:, None] == y[None, :], 0.12, 0.01)
adj = torch.triu(torch.rand(n, n) < prob, diagonal=1)
adj = adj | adj.t()
lonely = (adj.sum(1) < 4).nonzero().flatten()
for v in lonely.tolist():
    peers = ((y == y[v]) & (torch.arange(n) != v)).nonzero().flatten()
    pick = peers[torch.randperm(len(peers))[:4]]
    adj[v, pick] = adj[pick, v] = True
split = torch.randperm(n)
tr, va = split[:140], split[140:]

net = GAT(32, 16, n_cls)
augment = DropEdge(adj, args.p_max, ramp=40)
opt = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
dtype = getattr(torch, args.amp_dtype)
scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
ema = {k: v.clone() for k, v in net.state_dict().items()}

for epoch in range(args.epochs):
    net.train()
    a = augment(epoch)
    with torch.autocast("cpu", dtype=dtype):
        loss = F.cross_entropy(net(x, a)[tr], y[tr])
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    sched.step()
    for k, v in net.state_dict().items():
        ema[k].lerp_(v, 0.1)
    if epoch % 5 == 0 or math.isnan(loss.item()):
        net.eval()
        with torch.inference_mode(), torch.autocast("cpu", dtype=dtype):
            acc = (net(x, adj)[va].argmax(-1) == y[va]).float().mean().item()
        print(f"{epoch:3d} drop {augment.rate(epoch):.2f} loss {loss.item():.4f} val {acc:.3f} scale {scaler.get_scale():g}")

torch_acc = None
with torch.inference_mode():
    net.load_state_dict(ema)
    torch_acc = (net(x, adj)[va].argmax(-1) == y[va]).float().mean().item()
print("EMA weights, validation accuracy", round(torch_acc, 3))
