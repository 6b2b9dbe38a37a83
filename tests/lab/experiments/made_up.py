"""Made-up runs of a comparison, with numbers that leave no doubt."""

from treefold.lab.runs import Record

FACTS = {
    "name": "mine",
    "digest": "0123456789abcdef",
    "level": "graph",
    "kind": "classification",
    "metric": "accuracy",
    "num_outputs": 3,
    "num_graphs": 3000,
    "num_nodes": 60_000,
    "num_edges": 200_000,
    "largest_neighbourhood": 1000,
    "answers": {"train": 2000, "val": 500, "test": 500},
    "notes": ["The splits are those of the data."],
}


def run(name, seed, val, seconds, test=None, train=None, laws=None, facts=FACTS, **changes):
    metric = facts["metric"]
    return Record(
        **{
            "name": f"mine/{name}",
            "preset": "30 epochs",
            "seed": seed,
            "recipe": {
                "dataset": facts,
                "aggregator": {"name": name, "options": {}},
                "model": {"channels": 32, "layers": 2},
                "training": {"epochs": 30, "learning_rate": 0.003},
            },
            "hardware": {"cpu": "A Processor", "cores": 2},
            "seconds": 30 * seconds,
            "epochs": 30,
            "status": "finished",
            "metrics": {
                f"{metric}@train": train or val,
                f"{metric}@val": val,
                f"{metric}@test": test or val,
                f"constant_{metric}": 0.4,
                "seconds_per_epoch": seconds,
                "step_memory": 2_000_000,
                "num_parameters": 8000,
                **{f"law:{law}": value for law, value in (laws or {}).items()},
            },
        }
        | changes
    )


def save(folder, runs):
    for record in runs:
        place = folder / record.name.partition("/")[2] / f"seed-{record.seed}"
        place.mkdir(parents=True)
        record.write(place)
    return folder


def seeds(name, vals, seconds, **entries):
    """A run for each validation score."""
    return [run(name, seed, val, seconds, **entries) for seed, val in enumerate(vals)]
