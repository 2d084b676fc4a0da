import torch


class Utterances(torch.utils.data.Dataset):
    """Frames drawn around one prototype a token, eight frames a token."""

    def __init__(self, n=480, tokens=11, length=6, n_mels=20, seed=0):
        g = torch.Generator().manual_seed(seed)
        proto = torch.randn(tokens, n_mels, generator=torch.Generator().manual_seed(99))
        self.y = torch.randint(1, tokens + 1, (n, length), generator=g)
        x = proto[self.y - 1].repeat_interleave(8, dim=1)
        self.x = x + 0.7 * torch.randn(x.shape, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]
