import torch
from torch import nn


class Game:
    def __init__(self):
        self.lengths = iter([5, 4, 6, 1, 5])

    def reset(self):
        self.left = next(self.lengths)
        return torch.randn(3)

    def step(self):
        self.left -= 1
        return torch.randn(3), float(self.left), self.left <= 0


def episode(game, policy):
    state, done = game.reset(), False
    chances, rewards = [], []
    while not done:
        chances.append(policy(state).log_softmax(-1)[0])
        state, reward, done = game.step()
        rewards.append(reward)
    return torch.stack(chances), rewards


def main():
    torch.manual_seed(0)
    game, policy = Game(), nn.Linear(3, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for _ in range(5):
        chances, rewards = episode(game, policy)
        returns = torch.tensor(rewards)
        returns = (returns - returns.mean()) / returns.std()  # fault: math
        loss = -(chances * returns).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
