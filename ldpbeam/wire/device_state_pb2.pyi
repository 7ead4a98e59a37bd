from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeviceState(_message.Message):
    __slots__ = ("secret", "collections", "clock_seconds", "withdrawn", "dropped", "damaged")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    COLLECTIONS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    secret: bytes
    collections: _containers.RepeatedCompositeFieldContainer[CollectionState]
    clock_seconds: int
    withdrawn: bool
    dropped: int
    damaged: int
    def __init__(self, secret: _Optional[bytes] = ..., collections: _Optional[_Iterable[_Union[CollectionState, _Mapping]]] = ..., clock_seconds: _Optional[int] = ..., withdrawn: bool = ..., dropped: _Optional[int] = ..., damaged: _Optional[int] = ...) -> None: ...

class CollectionState(_message.Message):
    __slots__ = ("digest", "name", "version", "memo", "spans", "doubted_seconds", "levels", "inputs", "spent_budget", "own_epochs")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMO_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    DOUBTED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SPENT_BUDGET_FIELD_NUMBER: _ClassVar[int]
    OWN_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    name: str
    version: int
    memo: DeviceMemo
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    doubted_seconds: int
    levels: _containers.RepeatedCompositeFieldContainer[Level]
    inputs: bytes
    spent_budget: float
    own_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, digest: _Optional[bytes] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., memo: _Optional[_Union[DeviceMemo, _Mapping]] = ..., spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., doubted_seconds: _Optional[int] = ..., levels: _Optional[_Iterable[_Union[Level, _Mapping]]] = ..., inputs: _Optional[bytes] = ..., spent_budget: _Optional[float] = ..., own_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("first_epoch", "last_epoch", "report", "values", "noise", "silent", "forgotten", "digest")
    FIRST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    first_epoch: int
    last_epoch: int
    report: bytes
    values: bytes
    noise: bool
    silent: bool
    forgotten: bool
    digest: int
    def __init__(self, first_epoch: _Optional[int] = ..., last_epoch: _Optional[int] = ..., report: _Optional[bytes] = ..., values: _Optional[bytes] = ..., noise: bool = ..., silent: bool = ..., forgotten: bool = ..., digest: _Optional[int] = ...) -> None: ...

class Level(_message.Message):
    __slots__ = ("epsilon", "times")
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    epsilon: float
    times: int
    def __init__(self, epsilon: _Optional[float] = ..., times: _Optional[int] = ...) -> None: ...

class DeviceMemo(_message.Message):
    __slots__ = ("seed", "answers", "parts")
    SEED_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    seed: bytes
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    parts: _containers.RepeatedCompositeFieldContainer[DeviceMemo]
    def __init__(self, seed: _Optional[bytes] = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ..., parts: _Optional[_Iterable[_Union[DeviceMemo, _Mapping]]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("input", "answer")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    input: int
    answer: bytes
    def __init__(self, input: _Optional[int] = ..., answer: _Optional[bytes] = ...) -> None: ...
