"""What modules cost beside the operations they call."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main


def layer(torch: Any) -> dict[str, Any]:
    module = torch.nn.Linear(2, 2)
    return {"m": module, "x": torch.ones(1, 2), "linear": torch.nn.functional.linear}


def plain(torch: Any) -> dict[str, Any]:
    class Plain(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    hooked = Plain()
    hooked.register_forward_hook(lambda module, args, output: None)
    return {"m": Plain(), "hooked": hooked, "x": 1}


def stack(torch: Any) -> dict[str, Any]:
    layers = [torch.nn.Linear(4, 4) for _ in range(20)]
    model = torch.nn.Sequential(*layers)
    return {"m": model, "state": model.state_dict(), "Linear": torch.nn.Linear}


CASES = [
    Case("call of a module that does nothing", plain, "m(x)", bar=4.0),
    Case("the same with a forward hook", plain, "hooked(x)"),
    Case("m.weight", layer, "m.weight", bar=4.0),
    Case("m.attribute = 1", layer, "m.attribute = 1", bar=4.0),
    Case("nn.Linear on 1×2", layer, "m(x)", bar=4.0),
    Case("F.linear on 1×2 with its weights", layer, "linear(x, m.weight, m.bias)", bar=4.0),
    Case("nn.Linear(4, 4) made", stack, "Linear(4, 4)"),
    Case("parameters() of 20 layers", stack, "list(m.parameters())"),
    Case("train() of 20 layers", stack, "m.train()"),
    Case("state_dict() of 20 layers", stack, "m.state_dict()"),
    Case("load_state_dict() of 20 layers", stack, "m.load_state_dict(state)"),
]


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(CASES)


if __name__ == "__main__":
    main(rows, "modules: what they cost beside operations")
