"""The state file's bytes: versioned, of known length, under a checksum. Damage is refused, never guessed.

bytes   content
21      the name of the format
2       its version, little-endian
4       length of the message, little-endian
…       a DeviceState message
32      SHA-256 of all of the above
"""

from __future__ import annotations

from hashlib import sha256
from struct import pack, unpack

from google.protobuf.message import DecodeError

from ldpbeam.errors import DeviceError
from ldpbeam.protocols.contract import Memo
from ldpbeam.wire import device_state_pb2

VERSION = 1
_NAME = b"ldpbeam device state\0"
_HEAD = len(_NAME) + 6
_CHECK = 32


def pack_state(state: device_state_pb2.DeviceState, version: int = VERSION) -> bytes:
    """The bytes of a state file."""
    body = state.SerializeToString(deterministic=True)
    content = _NAME + pack("<HI", version, len(body)) + body
    return content + sha256(content).digest()


def unpack_state(content: bytes, where: str) -> device_state_pb2.DeviceState:
    """The state in a file's bytes.

    Raises:
        DeviceError: E-DEVICE-STATE-DAMAGED, or E-DEVICE-STATE-VERSION for a sound file of another version.
    """
    if len(content) < _HEAD + _CHECK or not content.startswith(_NAME):
        raise _damaged(where, "it is cut short or not a state file")
    version, length = unpack("<HI", content[len(_NAME) : _HEAD])
    if len(content) != _HEAD + length + _CHECK:
        raise _damaged(where, "its length is not the one it states")
    if sha256(content[:-_CHECK]).digest() != content[-_CHECK:]:
        raise _damaged(where, "its checksum does not fit")
    if version != VERSION:
        raise DeviceError(
            "E-DEVICE-STATE-VERSION",
            f"the device's state has format {version}, and this program reads format {VERSION}",
            where=where,
            remedy="Use the version of the program that wrote it, or a newer one.",
        )
    try:
        state = device_state_pb2.DeviceState.FromString(content[_HEAD:-_CHECK])
    except DecodeError:
        raise _damaged(where, "its content cannot be read") from None
    if len(state.secret) != (0 if state.withdrawn else 32):
        raise _damaged(where, "its secret does not have 32 bytes")
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


def _damaged(where: str, why: str) -> DeviceError:
    return DeviceError(
        "E-DEVICE-STATE-DAMAGED",
        f"the device's state is damaged: {why}; nothing is reported, because a new draw would spend the "
        "device's privacy again",
        where=where,
        remedy="Restore the file from a copy; an older one will do.",
    )


def memo_message(memo: Memo) -> device_state_pb2.DeviceMemo:
    """A memo as it is stored."""
    message = device_state_pb2.DeviceMemo(parts=map(memo_message, memo.parts))
    if memo.seed is not None:
        message.seed = _bytes(memo.seed)
    for key, answer in memo.answers.items():
        message.answers.add(input=key, answer=_bytes(answer))
    return message


def memo_of(message: device_state_pb2.DeviceMemo) -> Memo:
    """The memo that was stored."""
    seed = int.from_bytes(message.seed, "little") if message.HasField("seed") else None
    answers = {one.input: int.from_bytes(one.answer, "little") for one in message.answers}
    return Memo(seed, answers, tuple(map(memo_of, message.parts)))


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "little")
