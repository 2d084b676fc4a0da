import torch


class TwoTowerLoss(torch.nn.Module):
    """In-batch sampled softmax with popularity correction.

    Items that occur in a user's own positives are left out of the negatives.
    """

    def __init__(self, temperature=0.07, alpha=0.5):
        super().__init__()
        self.temperature = temperature
        self.alpha = alpha

    def forward(self, users, items, item_ids, item_freq):
        sim = users @ items.t() / self.temperature
        sim = sim - self.alpha * torch.log(item_freq[item_ids]).to(sim.dtype)
        same = item_ids[:, None] == item_ids[None, :]
        weights = torch.exp(sim)
        pos = weights.diagonal()
        neg = weights.masked_fill(same, 0).sum(dim=1)
        return (torch.log(pos + neg) - sim.diagonal()).mean()
