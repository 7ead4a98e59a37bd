"""Simulation: populations with a known truth, and randomness that does not depend on batching."""

from ldpbeam.simulators.population.specs import ABSENT as ABSENT
from ldpbeam.simulators.population.specs import SPECS as SPECS
from ldpbeam.simulators.population.specs import DomainView as DomainView
from ldpbeam.simulators.population.specs import Population as Population
from ldpbeam.simulators.population.specs import population as population
from ldpbeam.simulators.words import RandomWords as RandomWords
