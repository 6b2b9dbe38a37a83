"""`treefold list`: everything that has a name."""


def list_() -> None:
    """Name all experiments, their rows, the presets, the aggregators and the trained models."""
    from treefold.lab.experiments import AGGREGATOR_NAMES, FAMILIES, TRAINED

    families = {title: family for title, family in FAMILIES.items() if family.rows}
    print("experiments")
    for family in families.values():
        for name, rows in family.rows.items():
            others = ", ".join(family.extra_rows) if name in family.with_extra else ""
            print(f"  {name}: {', '.join(rows)}" + (f"; by name only: {others}" if others else ""))
    for title, family in families.items():
        print(f"presets for {title}")
        for name, about in family.presets.items():
            print(f"  {name}: {about}")
    tasks = ", ".join(FAMILIES["sets"].tasks)
    print(f"aggregators, each a row of {tasks} too\n  {', '.join(AGGREGATOR_NAMES)}")
    print("trained models, for evaluate, laws and fold; for certify those of finite states")
    print(f"  {', '.join(TRAINED)}")
