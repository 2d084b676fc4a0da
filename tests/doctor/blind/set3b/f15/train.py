"""Two-tower matching of queries and products; the towers run side by side in a small thread pool."""
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn


class Tower(nn.Module):
    def __init__(self, vocab, dim=24, out=12):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, 48), nn.GELU(), nn.Linear(48, out))

    def forward(self, ids):
        return self.mlp(self.bag(ids))


class Matcher(nn.Module):
    def __init__(self, words, products, pool):
        super().__init__()
        self.query, self.product = Tower(words), Tower(products)
        self.pool = pool

    def forward(self, query, product):
        jobs = [self.pool.submit(self.query, query), self.pool.submit(self.product, product)]
        return tuple(j.result() for j in jobs)


@contextmanager
def half_precision(state):
    with torch.autocast("cpu", dtype=torch.float16):
        yield state["scaler"]


def catalogue(words=60, products=40, topics=8, seed=0):
    g = torch.Generator().manual_seed(seed)
    word_topic = torch.arange(words) % topics
    product_topic = torch.arange(products) % topics
    pools = {t: ((word_topic == t).nonzero().flatten(), (product_topic == t).nonzero().flatten())
             for t in range(topics)}

    def draw(n):
        t = torch.randint(0, topics, (n,), generator=g)
        pick = lambda pool, k: pool[torch.randint(0, len(pool), (k,), generator=g)]
        query = torch.stack([pick(pools[int(i)][0], 5) for i in t])
        noise = torch.rand(query.shape, generator=g) < 0.2
        query[noise] = torch.randint(0, words, (int(noise.sum()),), generator=g)
        product = torch.stack([pick(pools[int(i)][1], 3) for i in t])
        return query, product, (torch.randint(0, 2, (n,), generator=g) * 2 - 1)

    return draw


def roll_negatives(product, sign):
    """A pair with sign -1 gets the product of another row."""
    return torch.where(sign[:, None] > 0, product, product.roll(1, 0))


def main(steps=100, batch=32):
    torch.manual_seed(0)
    draw = catalogue()
    with ThreadPoolExecutor(max_workers=2) as pool:
        model = Matcher(60, 40, pool)
        opt = torch.optim.Adam(model.parameters(), lr=5e-3)
        state = {"scaler": torch.amp.GradScaler("cpu", init_scale=1024.0), "loss": 0.0}
        for step in range(1, steps + 1):
            query, product, sign = draw(batch)
            product = roll_negatives(product, sign)
            with half_precision(state) as scaler:
                q, p = model(query, product)
                score = (q * p).sum(-1)
                loss = F.softplus(-sign * score).mean()
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            state["loss"] += loss.item()
            if step % 20 == 0:
                hit = ((score > 0) == (sign > 0)).float().mean().item()
                print(f"{step:4d} loss {state['loss'] / 20:.4f} pair-acc {hit:.3f} scale {scaler.get_scale():.0f}")
                state["loss"] = 0.0


if __name__ == "__main__":
    main()
