"""Tables as embeddings of PyTorch.

>>> emb = tide.torch.Embedding(c.table("factors"))
>>> loss = model(emb(ids)).sum()
>>> loss.backward()                     # pushes the gradient of each row that was used
"""
from __future__ import annotations

from typing import Optional

import numpy as np
import torch

from . import client, errors

__all__ = ["Embedding"]


class Embedding(torch.nn.Module):
    """Looks rows of a table up; its backward pass pushes their gradients, equal ids summed.

    table: with update "sgd", "adagrad", "adam", "momentum" or "nesterov", which get the gradient and apply the table's own
    learning rate; or "add", which gets -lr * gradient. push: "backward", or "step": gradients add up until step(), as
    with an optimizer of torch. A module that is used several times in one backward pass under adagrad or adam takes
    "step". In eval() and under no_grad nothing is pushed. The rows are no parameters of the module.
    """

    def __init__(self, table: client.Table, lr: Optional[float] = None, push: str = "backward",
                 padding_idx: Optional[int] = None):
        super().__init__()
        if table.update == "assign":
            raise errors.UsageError(f"table {table.name} assigns: a gradient would replace the row")
        if (table.update == "add") != (lr is not None):
            raise errors.UsageError("a table that adds requires lr" if lr is None else
                                    f"table {table.name} has a learning rate of its own: leave lr out")
        if push not in ("backward", "step"):
            raise errors.UsageError(f'push is "backward" or "step", not {push!r}')
        self.table, self.lr, self.push, self.padding_idx = table, lr, push, padding_idx
        self._gradients: list = []

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        unique, places = torch.unique(ids.detach().cpu(), return_inverse=True)
        rows = torch.from_numpy(self.table.pull(unique))
        if self.padding_idx is not None:
            rows[unique == self.padding_idx] = 0
        if self.training and torch.is_grad_enabled():
            rows.requires_grad_()
            rows.register_hook(lambda gradient: self._take(unique, gradient))
        return rows[places].to(ids.device)

    def _take(self, ids, gradient):
        if gradient.requires_grad:
            raise errors.UsageError("a second derivative cannot be pushed: leave create_graph out")
        if self.padding_idx is not None:
            kept = ids != self.padding_idx
            ids, gradient = ids[kept], gradient[kept]
        pair = (ids.numpy(), gradient.numpy())
        if self.push == "backward":
            self._send(*pair, 1.0)
        else:
            self._gradients.append((pair[0], pair[1].copy()))

    def step(self, scale: float = 1.0) -> None:
        """push="step": pushes what added up, times `scale`."""
        pairs, self._gradients = self._gradients, []
        if not pairs:
            return
        ids, places = np.unique(np.concatenate([p[0] for p in pairs]), return_inverse=True)
        summed = np.zeros((len(ids), self.table.width), np.float32)
        np.add.at(summed, places, np.concatenate([p[1] for p in pairs]))
        self._send(ids, summed, scale)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets what added up."""
        self._gradients = []
        super().zero_grad(set_to_none)

    def _send(self, ids, gradient, scale):
        factor = scale if self.lr is None else -self.lr * scale
        self.table.push(ids, gradient if factor == 1 else np.multiply(gradient, np.float32(factor)), cast=True)

    def extra_repr(self) -> str:
        return f"{self.table.name}, {self.table.width}, push={self.push!r}"
