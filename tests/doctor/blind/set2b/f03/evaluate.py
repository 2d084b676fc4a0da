import torch
import torch.nn.functional as F


@torch.no_grad()
def full_graph_eval(model, graph, idx, autocast):
    was_training = model.training
    model.eval()
    block = (graph.src, graph.dst, graph.n)
    with autocast():
        logits = model(graph.x, [block, block])
        nll = F.cross_entropy(logits[idx], graph.y[idx])
    acc = (logits[idx].argmax(-1) == graph.y[idx]).float().mean()
    model.train(was_training)
    return nll.item(), acc.item()
