"""What a device can lose: guarantees as values, computed from the integer probabilities."""

from ldp.privacy.counters import CountersGuarantee, theorem_5
from ldp.privacy.guarantee import Guarantee
from ldp.privacy.ledger import FleetLedger, Ledger, fleet_ledger
from ldp.privacy.loss import BitLosses, Losses, SeveralLosses, SymbolLosses

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
