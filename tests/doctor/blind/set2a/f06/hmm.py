import torch


def logits_to_params(raw):
    return {k: torch.softmax(v, dim=-1) for k, v in raw.items()}


def new_raw(states, symbols, gen):
    return {
        "start": torch.zeros(states, requires_grad=True),
        "move": (torch.randn(states, states, generator=gen) + 2 * torch.eye(states)).requires_grad_(),
        "emit": torch.randn(states, symbols, generator=gen).requires_grad_(),
    }


def likelihood(raw, obs):
    """Probability of each row of obs (batch, time) by the forward recursion."""
    p = logits_to_params(raw)
    emit = p["emit"].t()
    alpha = p["start"] * emit[obs[:, 0]]
    for t in range(1, obs.shape[1]):
        alpha = torch.matmul(alpha, p["move"]) * emit[obs[:, t]]
    return alpha.sum(dim=1)


def sample(raw, batch, length, gen):
    with torch.no_grad():
        p = logits_to_params(raw)
        state = torch.multinomial(p["start"].expand(batch, -1), 1, generator=gen).squeeze(1)
        out = []
        for _ in range(length):
            out.append(torch.multinomial(p["emit"][state], 1, generator=gen).squeeze(1))
            state = torch.multinomial(p["move"][state], 1, generator=gen).squeeze(1)
        return torch.stack(out, 1)
