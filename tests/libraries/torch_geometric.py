"""torch_geometric without its compiled companions: data, batches, pipes, convolutions, training."""

import torch
from torch.utils.data.datapipes.iter import IterableWrapper
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool
from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj, to_undirected

torch.manual_seed(0)
edges = to_undirected(torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 4, 4]]))
graph = Data(x=torch.randn(5, 4), edge_index=edges, y=torch.tensor([1]))
print(graph, degree(edges[0], 5).tolist(), to_dense_adj(edges).sum().item())
print("loops", add_self_loops(edges, num_nodes=5)[0].shape)
print("softmax", softmax(torch.randn(edges.size(1)), edges[1], num_nodes=5).sum().item())

layers = [
    GCNConv(4, 8),
    SAGEConv(4, 8),
    GATConv(4, 8, heads=2, concat=False),
    GINConv(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())),
]
for layer in layers:
    out = layer(graph.x, edges)
    out.square().sum().backward()
    norms = [p.grad.norm().item() for p in layer.parameters() if p.grad is not None]
    print(type(layer).__name__, out.sum().item(), norms)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(4, 16), GCNConv(16, 2)

    def forward(self, batch):
        x = self.first(batch.x, batch.edge_index).relu()
        return global_mean_pool(self.second(x, batch.edge_index), batch.batch)


graphs = [Data(x=torch.randn(5, 4), edge_index=edges, y=torch.tensor([i % 2])) for i in range(8)]
print("batch", Batch.from_data_list(graphs[:3]).num_nodes)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(3):
    for batch in DataLoader(graphs, batch_size=4, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(batch), batch.y)
        loss.backward()
        optimizer.step()
    print("loss", epoch, loss.item())

pipe = IterableWrapper(graphs).shuffle().batch_graphs(batch_size=4)
for batch in torch.utils.data.DataLoader(pipe, batch_size=None, shuffle=True):
    print("pipe", batch.num_graphs, batch.y.tolist(), net(batch).sum().item())
