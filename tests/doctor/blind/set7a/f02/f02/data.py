import torch

PAD = 0


class SessionPairs(torch.utils.data.Dataset):
    """Query session and clicked-product session, as item ids of the same taste."""

    def __init__(self, n=640, vocab=120, length=10, seed=3):
        g = torch.Generator().manual_seed(seed)
        taste = torch.randint(0, 12, (n,), generator=g)
        self.q, self.d = [], []
        for i in range(n):
            base = 1 + int(taste[i]) * 9
            a = base + torch.randint(0, 9, (length,), generator=g)
            b = base + torch.randint(0, 9, (length,), generator=g)
            la = int(torch.randint(3, length + 1, (1,), generator=g))
            a[la:] = PAD
            if i == 417:
                b[:] = PAD
            self.q.append(a)
            self.d.append(b)

    def __len__(self):
        return len(self.q)

    def __getitem__(self, i):
        return self.q[i], self.d[i]
