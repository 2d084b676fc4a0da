import torch
import torch.nn as nn


class PointerNet(nn.Module):
    """Encodes a set of points and visits them one after another."""

    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.mix = nn.Sequential(nn.Linear(dim * 2, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.cell = nn.GRUCell(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.start = nn.Parameter(torch.zeros(dim))
        self.scale = dim ** -0.5

    def encode(self, pts, valid):
        h = self.embed(pts)
        pooled = (h * valid[..., None]).sum(1) / valid.sum(1, keepdim=True)
        return self.mix(torch.cat([h, pooled[:, None].expand_as(h)], -1)), pooled

    def forward(self, pts, valid, order):
        nodes, ctx = self.encode(pts, valid)
        keys = self.key(nodes)
        state = ctx.float()
        inp = self.start.expand_as(state)
        open_ = valid.bool()
        steps = []
        for t in range(order.size(1)):
            state = self.cell(inp.float(), state)
            q = self.query(state)
            logits = torch.bmm(keys, q[:, :, None]).squeeze(-1) * self.scale
            logits = logits + open_.float().log()
            steps.append(torch.log_softmax(logits, -1))
            pick = order[:, t]
            open_ = open_.scatter(1, pick[:, None], False)
            inp = nodes[torch.arange(len(pick)), pick]
        return torch.stack(steps, 1)
