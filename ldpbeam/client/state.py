"""The state of a device as bytes, and what must hold of it. Damage is refused, never guessed."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from ldpbeam.durable.errors import DamageError
from ldpbeam.errors import DeviceError
from ldpbeam.protocols.device import Memo
from ldpbeam.wire import device_state_pb2

_SECRET_BYTES = 32


def pack_state(state: device_state_pb2.DeviceState) -> bytes:
    return state.SerializeToString(deterministic=True)


def unpack_state(content: bytes) -> device_state_pb2.DeviceState:
    try:
        state = device_state_pb2.DeviceState.FromString(content)
    except DecodeError:
        raise DamageError("its content cannot be read") from None
    if len(state.secret) != (0 if state.withdrawn else _SECRET_BYTES):
        raise DamageError("its secret does not have 32 bytes")
    return state


def require_no_withdrawal(state: device_state_pb2.DeviceState) -> None:
    """Raise DeviceError where the person has withdrawn."""
    if state.withdrawn:
        raise DeviceError(
            "E-DEVICE-WITHDRAWN",
            "the person of this device has withdrawn, and it reports nothing any more",
            remedy="Ask the person; a device in another folder would draw its permanent responses again, and "
            "spend up to ε∞ once more for each value.",
        )


def memo_message(memo: Memo) -> device_state_pb2.DeviceMemo:
    message = device_state_pb2.DeviceMemo(parts=map(memo_message, memo.parts))
    if memo.seed is not None:
        message.seed = _bytes(memo.seed)
    for key, answer in memo.answers.items():
        message.answers.add(input=key, answer=_bytes(answer))
    return message


def memo_of(message: device_state_pb2.DeviceMemo) -> Memo:
    seed = int.from_bytes(message.seed, "little") if message.HasField("seed") else None
    answers = {one.input: int.from_bytes(one.answer, "little") for one in message.answers}
    return Memo(seed, answers, tuple(map(memo_of, message.parts)))


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "little")
