import torch


def make_chain(vocab, branching, generator):
    """A random order-1 Markov chain in which each symbol has a few likely successors."""
    logits = torch.randn(vocab, vocab, generator=generator)
    favourites = torch.rand(vocab, vocab, generator=generator).argsort(1)[:, :branching]
    logits.scatter_add_(1, favourites, torch.full(favourites.shape, 2.0))
    return logits.softmax(1)


def sample(chain, rows, length, generator):
    state = torch.randint(chain.shape[0], (rows,), generator=generator)
    out = [state]
    for _ in range(length):
        state = torch.multinomial(chain[state], 1, generator=generator).squeeze(1)
        out.append(state)
    return torch.stack(out, 1)


def build(vocab=48, length=64, train_rows=320, valid_rows=384, seed=3):
    generator = torch.Generator().manual_seed(seed)
    chain = make_chain(vocab, 4, generator)
    return (sample(chain, train_rows, length, generator),
            sample(chain, valid_rows, length, generator))
