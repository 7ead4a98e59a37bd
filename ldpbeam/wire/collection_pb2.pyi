from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Collection(_message.Message):
    __slots__ = ("name", "version", "domain", "protocol", "epsilon", "epsilon_longitudinal", "epsilon_first", "g", "calibration", "hash_family", "epoch", "d", "p2", "q2", "gamma", "segment", "attributes", "allocation", "participation", "w", "owner", "allowed_lateness_seconds", "consistency", "min_reports", "future_tolerance_seconds", "retired_seconds", "slices")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    EPSILON_LONGITUDINAL_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIRST_FIELD_NUMBER: _ClassVar[int]
    G_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    HASH_FAMILY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    D_FIELD_NUMBER: _ClassVar[int]
    P2_FIELD_NUMBER: _ClassVar[int]
    Q2_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    PARTICIPATION_FIELD_NUMBER: _ClassVar[int]
    W_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_LATENESS_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    MIN_REPORTS_FIELD_NUMBER: _ClassVar[int]
    FUTURE_TOLERANCE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RETIRED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    domain: Domain
    protocol: str
    epsilon: float
    epsilon_longitudinal: float
    epsilon_first: float
    g: int
    calibration: str
    hash_family: str
    epoch: Epochs
    d: int
    p2: float
    q2: float
    gamma: float
    segment: int
    attributes: _containers.RepeatedCompositeFieldContainer[Attribute]
    allocation: str
    participation: Participation
    w: int
    owner: str
    allowed_lateness_seconds: int
    consistency: str
    min_reports: int
    future_tolerance_seconds: int
    retired_seconds: int
    slices: _containers.RepeatedCompositeFieldContainer[Dimension]
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., domain: _Optional[_Union[Domain, _Mapping]] = ..., protocol: _Optional[str] = ..., epsilon: _Optional[float] = ..., epsilon_longitudinal: _Optional[float] = ..., epsilon_first: _Optional[float] = ..., g: _Optional[int] = ..., calibration: _Optional[str] = ..., hash_family: _Optional[str] = ..., epoch: _Optional[_Union[Epochs, _Mapping]] = ..., d: _Optional[int] = ..., p2: _Optional[float] = ..., q2: _Optional[float] = ..., gamma: _Optional[float] = ..., segment: _Optional[int] = ..., attributes: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ..., allocation: _Optional[str] = ..., participation: _Optional[_Union[Participation, _Mapping]] = ..., w: _Optional[int] = ..., owner: _Optional[str] = ..., allowed_lateness_seconds: _Optional[int] = ..., consistency: _Optional[str] = ..., min_reports: _Optional[int] = ..., future_tolerance_seconds: _Optional[int] = ..., retired_seconds: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[Dimension, _Mapping]]] = ...) -> None: ...

class Dimension(_message.Message):
    __slots__ = ("name", "labels")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    name: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class Participation(_message.Message):
    __slots__ = ("reports", "of")
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    reports: int
    of: int
    def __init__(self, reports: _Optional[int] = ..., of: _Optional[int] = ...) -> None: ...

class Domain(_message.Message):
    __slots__ = ("size", "labels", "maximum", "other", "strings")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    size: int
    labels: _containers.RepeatedScalarFieldContainer[str]
    maximum: float
    other: int
    strings: Strings
    def __init__(self, size: _Optional[int] = ..., labels: _Optional[_Iterable[str]] = ..., maximum: _Optional[float] = ..., other: _Optional[int] = ..., strings: _Optional[_Union[Strings, _Mapping]] = ...) -> None: ...

class Strings(_message.Message):
    __slots__ = ("max_length", "symbols", "fold", "drop", "lengths", "weights", "functions")
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SYMBOLS_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    max_length: int
    symbols: str
    fold: bool
    drop: bool
    lengths: _containers.RepeatedScalarFieldContainer[int]
    weights: _containers.RepeatedScalarFieldContainer[int]
    functions: int
    def __init__(self, max_length: _Optional[int] = ..., symbols: _Optional[str] = ..., fold: bool = ..., drop: bool = ..., lengths: _Optional[_Iterable[int]] = ..., weights: _Optional[_Iterable[int]] = ..., functions: _Optional[int] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("name", "domain", "protocol", "g", "d", "p2", "q2", "gamma", "segment", "w")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    G_FIELD_NUMBER: _ClassVar[int]
    D_FIELD_NUMBER: _ClassVar[int]
    P2_FIELD_NUMBER: _ClassVar[int]
    Q2_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    W_FIELD_NUMBER: _ClassVar[int]
    name: str
    domain: Domain
    protocol: str
    g: int
    d: int
    p2: float
    q2: float
    gamma: float
    segment: int
    w: int
    def __init__(self, name: _Optional[str] = ..., domain: _Optional[_Union[Domain, _Mapping]] = ..., protocol: _Optional[str] = ..., g: _Optional[int] = ..., d: _Optional[int] = ..., p2: _Optional[float] = ..., q2: _Optional[float] = ..., gamma: _Optional[float] = ..., segment: _Optional[int] = ..., w: _Optional[int] = ...) -> None: ...

class Epochs(_message.Message):
    __slots__ = ("length_seconds", "origin_seconds", "count")
    LENGTH_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    length_seconds: int
    origin_seconds: int
    count: int
    def __init__(self, length_seconds: _Optional[int] = ..., origin_seconds: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...
