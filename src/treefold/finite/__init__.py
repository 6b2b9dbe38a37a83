"""Finite monoids read off an operator: closed, checked, certified, minimised, looked up."""

from treefold.finite.certificate import Certificate, Target, certify, fingerprint, target_classes
from treefold.finite.closure import LimitReached, close
from treefold.finite.laws import Laws, check
from treefold.finite.margin import Bounded, bounded
from treefold.finite.monoid import FiniteMonoid, Tree, leaves, spelled
from treefold.finite.quotient import Quotient, minimize

__all__ = [
    "Bounded",
    "Certificate",
    "FiniteMonoid",
    "Laws",
    "LimitReached",
    "Quotient",
    "Target",
    "Tree",
    "bounded",
    "certify",
    "check",
    "close",
    "fingerprint",
    "leaves",
    "minimize",
    "spelled",
    "target_classes",
]
