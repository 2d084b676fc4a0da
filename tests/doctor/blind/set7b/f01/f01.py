"""Node-level regression on citation-like graphs with a two-layer message passing network."""
import torch
from torch import nn
import torch.nn.functional as F


def make_graph(num_nodes, num_hubs, gen):
    """Preferential-attachment flavoured graph: most edges end in a few hubs."""
    src = torch.arange(num_nodes).repeat(3)
    to_hub = torch.rand(src.numel(), generator=gen) < 0.6
    hubs = torch.randint(0, num_hubs, (src.numel(),), generator=gen)
    anywhere = torch.randint(0, num_nodes, (src.numel(),), generator=gen)
    dst = torch.where(to_hub, hubs, anywhere)
    cites = torch.rand(num_nodes, 1, generator=gen) * 400
    words = torch.randn(num_nodes, 15, generator=gen)
    x = torch.cat([cites, words], dim=1)
    y = words[:, :3].sum(1) * 0.5 + cites[:, 0] / 400
    return x, torch.stack([src, dst]), y


class MessageLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(d_in, d_out), nn.ReLU(), nn.Linear(d_out, d_out))
        self.upd = nn.Linear(d_in + d_out, d_out)
        self.norm = nn.LayerNorm(d_out)

    def forward(self, x, edge_index):
        src, dst = edge_index
        m = self.msg(x[src])
        out = torch.zeros(x.size(0), m.size(1), dtype=m.dtype)
        out = out.index_add(0, dst, m)
        h = self.upd(torch.cat([x.to(m.dtype), out], dim=-1))
        return F.relu(self.norm(h))


class GraphNet(nn.Module):
    def __init__(self, d_in=16, d=32):
        super().__init__()
        self.enc = nn.Linear(d_in, d)
        self.l1 = MessageLayer(d, d)
        self.l2 = MessageLayer(d, d)
        self.out = nn.Linear(d, 1)

    def forward(self, x, edge_index):
        h = self.enc(x)
        h = self.l1(h, edge_index)
        h = self.l2(h, edge_index)
        return self.out(h).squeeze(-1)


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    sizes = [300, 5000, 500, 5000, 700]
    graphs = [make_graph(n, 6 if n < 1000 else 1, gen) for n in sizes]
    model = GraphNet()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for epoch in range(4):
        for gid, (x, ei, y) in enumerate(graphs):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(x, ei)
                loss = F.mse_loss(pred.float(), y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(opt)
            scaler.update()
            print(f"epoch {epoch} graph {gid} nodes {x.size(0):4d} loss {loss.item():.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
