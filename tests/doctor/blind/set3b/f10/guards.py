"""Small helpers that attach to a module or to its parameters."""
import functools


def bounded_gradients(limit):
    """Class decorator: every parameter's gradient is kept within [-limit, limit]."""

    def wrap(cls):
        original = cls.__init__

        @functools.wraps(original)
        def init(self, *args, **kw):
            original(self, *args, **kw)
            for p in self.parameters():
                p.register_hook(lambda g: g.clamp(-limit, limit))

        cls.__init__ = init
        return cls

    return wrap


def count_parameters(module):
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
