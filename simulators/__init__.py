"""Simulation: populations with a known truth, and randomness that does not depend on batching."""

from simulators.population import ABSENT as ABSENT
from simulators.population import SPECS as SPECS
from simulators.population import DomainView as DomainView
from simulators.population import Population as Population
from simulators.population import population as population
from simulators.streams import Streams as Streams
