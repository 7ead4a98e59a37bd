"""Who is charged for what, and who makes way."""

from __future__ import annotations

import pytest

from ldpbeam.collector.room import NoRoomError, Occupant, Room


class Crowd:
    """A room of three connections and 1,000 bytes, whose clients have entered at 0, 1 and 2 seconds."""

    def __init__(self) -> None:
        self.now, self.closed = 0.0, list[int]()
        self.room = Room(3, 1000, lambda: self.now)
        self.clients = [Occupant(lambda number=number: self.closed.append(number)) for number in range(5)]  # type: ignore[misc]
        for number in range(3):
            self.now = number
            self.room.enter(self.clients[number])
        self.now = 10.0


def test_bodies_fill_the_room_to_the_last_byte_and_leave_it_empty() -> None:
    crowd = Crowd()
    for number, size in ((0, 1), (1, 599), (0, 399), (2, 1)):
        crowd.room.charge(crowd.clients[number], size)
    assert (crowd.room.held, crowd.closed) == (1000, [])
    for client in crowd.clients[:3]:
        crowd.room.renew(client)
    assert crowd.room.held == 0


def test_the_body_that_has_cost_most_makes_way_and_no_byte_stays_charged() -> None:
    crowd = Crowd()
    crowd.room.renew(crowd.clients[1])
    crowd.now = 11.0
    for number, size in ((0, 300), (1, 690), (2, 9)):
        crowd.room.charge(crowd.clients[number], size)
    crowd.room.charge(crowd.clients[2], 2)
    assert (crowd.closed, crowd.room.held) == ([0], 701)
    crowd.room.charge(crowd.clients[0], 5)  # what was read before its connection was closed
    crowd.room.renew(crowd.clients[0])
    assert crowd.room.held == 701


def test_a_body_that_has_cost_most_itself_or_finds_only_stored_ones_has_no_room() -> None:
    crowd = Crowd()
    crowd.room.charge(crowd.clients[0], 900)
    crowd.room.charge(crowd.clients[1], 50)
    with pytest.raises(NoRoomError):
        crowd.room.charge(crowd.clients[0], 51)
    crowd.clients[0].stored = True
    crowd.room.charge(crowd.clients[2], 100)
    assert (crowd.closed, crowd.room.held) == ([1], 1000)
    with pytest.raises(NoRoomError):
        crowd.room.charge(crowd.clients[2], 1)


def test_the_connection_that_has_been_idle_longest_makes_way_unless_its_body_is_stored() -> None:
    crowd = Crowd()
    crowd.room.renew(crowd.clients[0])
    crowd.clients[1].stored = True
    crowd.room.enter(crowd.clients[3])
    assert crowd.closed == [2]
    crowd.room.leave(crowd.clients[0])
    crowd.room.enter(crowd.clients[2])
    assert crowd.closed == [2]
    for number in (2, 3):
        crowd.clients[number].stored = True
    with pytest.raises(NoRoomError):
        crowd.room.enter(crowd.clients[4])
