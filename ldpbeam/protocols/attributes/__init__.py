"""Several attributes of one device in one collection: sample one, split the budget, or bound their sum.

* sample: each device draws one attribute once, for life, and reports only it, with the whole ε;
* allomfree: sample, with the better of L-GRR and L-OSUE for each attribute (ALLOMFREE Algorithm 1);
* split: every report tells about every attribute, with ε/d for each of the d;
* together: every report has one bit about each counter with the whole ε', for counters whose sum is bounded
  (Microsoft Theorem 5).

The parts are ordinary protocols, one per attribute: all count values, or all take means. A value is a tuple
with one index per attribute; a device holds all of them or is absent.
"""
