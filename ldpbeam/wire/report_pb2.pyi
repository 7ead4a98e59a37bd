from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Report(_message.Message):
    __slots__ = ("digest", "epoch", "report_id", "payload")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPORT_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    digest: int
    epoch: int
    report_id: int
    payload: bytes
    def __init__(self, digest: _Optional[int] = ..., epoch: _Optional[int] = ..., report_id: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class ReportBatch(_message.Message):
    __slots__ = ("digest", "epoch", "count", "report_ids", "payloads", "arrival")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REPORT_IDS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_FIELD_NUMBER: _ClassVar[int]
    digest: int
    epoch: int
    count: int
    report_ids: _containers.RepeatedScalarFieldContainer[int]
    payloads: bytes
    arrival: int
    def __init__(self, digest: _Optional[int] = ..., epoch: _Optional[int] = ..., count: _Optional[int] = ..., report_ids: _Optional[_Iterable[int]] = ..., payloads: _Optional[bytes] = ..., arrival: _Optional[int] = ...) -> None: ...
