import argparse

import torch
import torch.nn.functional as F

from model import SphereRec


def make_logs(users, items, topics, width, seed):
    g = torch.Generator().manual_seed(seed)
    topic_of = torch.arange(items) % topics
    taste = torch.randint(topics, (users,), generator=g)
    history = torch.zeros(users, width, dtype=torch.long)
    target = torch.zeros(users, dtype=torch.long)
    for u in range(users):
        pool = (topic_of == taste[u]).nonzero().squeeze(1)
        n = int(torch.randint(3, width + 1, (), generator=g))
        pick = pool[torch.randint(len(pool), (n + 1,), generator=g)]
        history[u, width - n:] = pick[:n] + 1
        target[u] = pick[n]
    return history, target


def hit_rate(model, history, target, k):
    with torch.no_grad():
        top = model(history).topk(k, dim=1).indices
    return (top == target[:, None]).any(1).float().mean().item()


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=1500)
    p.add_argument("--items", type=int, default=120)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--k", type=int, default=10)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    history, target = make_logs(args.users, args.items, topics=12, width=9, seed=4)
    n_train = int(0.85 * args.users)
    model = SphereRec(args.items)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        losses = []
        for idx in torch.randperm(n_train).split(64):
            logits = model(history[idx])
            loss = F.cross_entropy(logits, target[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.to_sphere()
        hr = hit_rate(model, history[n_train:], target[n_train:], args.k)
        print(f"epoch {epoch}  loss {sum(losses) / len(losses):.4f}  hit@{args.k} {hr:.3f}")


if __name__ == "__main__":
    main()
