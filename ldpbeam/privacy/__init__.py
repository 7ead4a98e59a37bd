"""What a device can lose: guarantees as values, computed from the integer probabilities."""

from ldpbeam.privacy.bit_loss import BitLosses
from ldpbeam.privacy.counters import CountersGuarantee, theorem_5
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
    "fleet_ledger",
    "theorem_5",
]
