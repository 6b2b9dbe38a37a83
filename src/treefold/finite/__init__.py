"""Finite monoids read off an operator: closed, checked, certified, minimised, looked up."""

from treefold.finite.certificate import (
    GRADES,
    Certificate,
    Grade,
    Target,
    certify,
    fingerprint,
    target_classes,
)
from treefold.finite.closure import LimitReached, Watch, close
from treefold.finite.laws import Laws, check
from treefold.finite.monoid import FiniteMonoid, Tree, leaves, spelled
from treefold.finite.quotient import Quotient, minimize

__all__ = [
    "GRADES",
    "Certificate",
    "FiniteMonoid",
    "Grade",
    "Laws",
    "LimitReached",
    "Quotient",
    "Target",
    "Tree",
    "Watch",
    "certify",
    "check",
    "close",
    "fingerprint",
    "leaves",
    "minimize",
    "spelled",
    "target_classes",
]
