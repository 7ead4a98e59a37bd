"""What a device can lose: guarantees as values, computed from the integer probabilities."""

from ldpbeam.privacy.bit_loss import BitLosses
from ldpbeam.privacy.counters import CountersGuarantee, bounded_sum_epsilon
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.ledger import FleetLedger, Ledger, fleet_ledger
from ldpbeam.privacy.loss import Losses, SeveralLosses, SymbolLosses

__all__ = [
    "BitLosses",
    "CountersGuarantee",
    "FleetLedger",
    "Guarantee",
    "Ledger",
    "Losses",
    "SeveralLosses",
    "SymbolLosses",
    "bounded_sum_epsilon",
    "fleet_ledger",
]
