"""The whole test of a package of rules."""

from pathlib import Path

from amplint.testing import FixtureTests


class TestHouseRules(FixtureTests):
    folder = Path(__file__).parents[1] / "fixtures"
