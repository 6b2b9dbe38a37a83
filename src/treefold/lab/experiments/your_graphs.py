"""Experiments on a user's own graphs, which `treefold compare` makes."""

from treefold.lab.experiments.recipe import GraphEvaluation, Kind, SmallModel
from treefold.lab.experiments.your_graphs_runner import YourGraphsRunner
from treefold.lab.tasks import YourGraphs

KINDS = {YourGraphs.name: Kind(YourGraphs, SmallModel, GraphEvaluation)}
RUNNER = YourGraphsRunner
