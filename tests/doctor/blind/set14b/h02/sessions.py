import torch


def build(items, width, seed, users=900, test_users=150):
    """Left-padded click sessions; each item leads to one of two successors."""
    g = torch.Generator().manual_seed(seed)
    jump = torch.stack([torch.randperm(items, generator=g), torch.randperm(items, generator=g)], 1)

    def walk(n, length):
        cur = torch.randint(items, (n,), generator=g)
        out = [cur]
        for _ in range(length):
            side = (torch.rand(n, generator=g) < 0.15).long()
            cur = jump[cur, side]
            out.append(cur)
        return torch.stack(out, 1) + 1

    path = walk(users, width)
    size = torch.randint(3, width + 1, (users, 1), generator=g)
    real = torch.arange(width) >= width - size
    seq, nxt = path[:, :-1] * real, path[:, 1:] * real

    path = walk(test_users, width)
    size = torch.randint(3, width + 1, (test_users, 1), generator=g)
    real = torch.arange(width) >= width - size
    wanted = path[:, -1:] * (torch.rand(test_users, 1, generator=g) < 0.7)
    return seq, nxt, path[:, :-1] * real, wanted
