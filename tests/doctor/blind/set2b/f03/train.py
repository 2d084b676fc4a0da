import functools

import torch
import torch.nn.functional as F

from evaluate import full_graph_eval
from graph import CitationGraph
from model import SumSAGE
from sampler import NeighbourSampler

CFG = dict(hidden=64, lr=3e-3, epochs=4, batch=100, amp=True)


def run(cfg):
    torch.manual_seed(0)
    graph = CitationGraph()
    loader = NeighbourSampler(graph, graph.train_idx, cfg["batch"])
    model = SumSAGE(graph.x.size(1), cfg["hidden"], 5)
    autocast = functools.partial(torch.autocast, "cpu", dtype=torch.float16, enabled=cfg["amp"])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, enabled=cfg["amp"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"], weight_decay=5e-4)
    best = float("inf")
    for epoch in range(cfg["epochs"]):
        tot = 0.0
        for nodes, blocks, seeds in loader:
            with autocast():
                out = model(graph.x[nodes], blocks)
                loss = F.cross_entropy(out, graph.y[seeds])
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            tot += loss.item()
        nll, acc = full_graph_eval(model, graph, graph.val_idx, autocast)
        flag = ""
        if nll < best:
            best, flag = nll, "*"
        print(f"[{epoch:02d}] train {tot / len(loader):.4f}  val nll {nll:.4f} acc {acc:.4f} {flag}")
    if best == float("inf"):
        print("no checkpoint was better than the initial one")
    return best


if __name__ == "__main__":
    run(CFG)
