"""`treefold certify`: a certificate for a run with finite states, written or checked again."""

import sys
from pathlib import Path
from typing import cast

from treefold.finite import GRADES, Certificate, Grade
from treefold.lab.experiments import (
    TRAINED,
    Experiment,
    certify_network,
    experiment_of,
    model_at,
    run_of,
    runner_of,
)
from treefold.lab.networks import CountingNetwork, SetNetwork
from treefold.lab.runs import Record
from treefold.names import require_one_of


def certify_run(
    path: Path, grade: str, limit: int, out: Path | None, monoid: Path | None = None
) -> Path:
    """Write a certificate for a run whose operator has finite states; gives where it is.

    The monoid itself is written to the folder `monoid`.
    """
    require_one_of(GRADES, grade, "grade")
    record = Record.read(run_of(path))
    experiment, model = _trained(path, record)
    about = {"run": record.name, "seed": record.seed, "recipe": record.recipe, "limit": limit}
    certificate, finite = certify_network(
        model, experiment.task, cast(Grade, grade), limit, _print_progress, about
    )
    if out is None:  # what comes with treefold is left as it is
        folder = Path() if path.as_posix() in TRAINED else run_of(path)
        out = folder / f"certificate-{grade}.json"
    certificate.save(out)
    if monoid is not None:
        finite.save_pretrained(monoid)
    print(describe_certificate(certificate))
    return out


def verify_certificate(file: Path, path: Path) -> None:
    """Make a certificate again from the weights of its run, and compare; raises if it differs."""
    kept = Certificate.load(file)
    try:
        record = Record.read(run_of(path))
    except ValueError as error:
        advice = f"name it: treefold certify RUN --verify {file}"
        raise ValueError(f"{error}; where the run is elsewhere, {advice}") from None
    experiment, model = _trained(path, record)
    found = certify_network(
        model, experiment.task, kept.grade, kept.about["limit"], _print_progress, kept.about
    ).certificate
    differences = kept.differences(found)
    if differences:
        raise ValueError(f"{file} is not what the weights give: {'; '.join(differences)}")
    print(f"verified: {describe_certificate(found)}")


def _trained(path: Path, record: Record) -> tuple[Experiment, SetNetwork | CountingNetwork]:
    """The experiment of a run, and its network; a ValueError if that is not about multisets."""
    experiment = experiment_of(record)
    model = model_at(path, runner_of(experiment, record.seed)).float()
    if not isinstance(model, SetNetwork | CountingNetwork):
        raise ValueError(f"{record.name} is not about multisets of integers; expected a set task")
    return experiment, model


def describe_certificate(found: Certificate) -> str:
    """A certificate in some lines."""
    verdict = "holds" if found.holds else f"does not hold: {found.wrong} of {found.checked} wrong"
    lines = [
        f"{found.grade} certificate {verdict}",
        f"{found.elements} states, {found.classes} needed; {found.checked} products and answers "
        f"compared in {found.seconds:.1f} s; margin {found.margin:.3g}",
    ]
    return "\n".join([*lines, *found.counterexamples])


def _print_progress(known: int, left: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{known} states, {left} to go ", end="", file=sys.stderr, flush=True)
