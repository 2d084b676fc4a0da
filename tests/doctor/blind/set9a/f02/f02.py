"""Node classification on a random community graph with a small GAT."""
import argparse

import torch
import torch.nn.functional as F

from gat import GAT


def community_graph(nodes, classes, feat, seed):
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(classes, (nodes,), generator=g)
    same = label[:, None] == label[None, :]
    prob = torch.where(same, 0.06, 0.006)
    upper = torch.triu(torch.rand(nodes, nodes, generator=g) < prob, 1)
    adj = upper | upper.t()
    for i in range(nodes):
        if adj[i].sum() < 3:
            peers = torch.nonzero(same[i]).flatten()
            pick = peers[torch.randperm(len(peers), generator=g)[:4]]
            pick = pick[pick != i]
            adj[i, pick] = adj[pick, i] = True
    centre = torch.randn(classes, feat, generator=g)
    x = centre[label] + 1.5 * torch.randn(nodes, feat, generator=g)
    return x, adj, label


def drop_edges(adj, rate):
    if rate <= 0:
        return adj
    keep = torch.triu(torch.rand(adj.shape) > rate, 1)
    keep = keep | keep.t()
    return adj & keep


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--edge-drop", type=float, default=0.12)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    x, adj, y = community_graph(args.nodes, 4, 24, args.seed)
    print(f"{adj.sum().item() // 2} edges, smallest degree {adj.sum(1).min().item()}")
    order = torch.randperm(args.nodes)
    train_idx, test_idx = order[: args.nodes // 2], order[args.nodes // 2:]

    model = GAT(24, 16, 4, heads=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)

    for step in range(1, args.steps + 1):
        model.train()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x, drop_edges(adj, args.edge_drop))
            loss = F.cross_entropy(logits[train_idx], y[train_idx])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 20 == 0:
            model.eval()
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(x, adj)[test_idx].argmax(1)
            acc = (pred == y[test_idx]).float().mean().item()
            print(f"step {step:4d}  loss {loss.item():.4f}  test acc {acc:.3f}")


if __name__ == "__main__":
    main()
